"""Values as text that reads back as the same values."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer


def literal(value: Any) -> str:
    """A literal that reads back as the same value, array for array."""
    if eqx.is_array(value):
        if isinstance(value, Tracer):
            return f"{value.dtype}{list(value.shape)}"
        return _array(np.asarray(value))
    if isinstance(value, Mapping):
        items = (f"{key!r}: {literal(x)}" for key, x in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(literal, value)) + "]"
    return repr(value)


def _array(array: np.ndarray) -> str:
    if array.ndim:
        return "[" + ", ".join(_array(np.asarray(x)) for x in array) + "]"
    if jnp.issubdtype(array.dtype, jnp.floating) and array.itemsize < 4:
        array = array.astype(np.float32)  # The dtype it is read back as.
    if np.isinf(array):
        return "1e999" if array > 0 else "-1e999"
    # NumPy's shortest digits that read back as the same number of this dtype.
    return str(array[()])
