"""Values as text that reads back as the same values, unless it would be too long."""

import abc
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .hints import MOST_NUMBERS


class Written(abc.ABC):
    """A value with a text form: an edit, a selection or a kind of pattern."""

    @abc.abstractmethod
    def text(self, most: int | None = None) -> str:
        """The text form, which `opto.parse` reads back.

        **Arguments:** `most`: An array of more numbers is shown by its type, shape and
            a digest, `float32[1000, 'sha 3f2a1c']`. Then it does not read back.
        """

    def __repr__(self) -> str:
        return self.text(MOST_NUMBERS)


def literal(value: Any, most: int | None = None) -> str:
    """A literal that reads back as the same value, array for array; see `Written`."""
    if eqx.is_array(value):
        if isinstance(value, Tracer):
            return f"{value.dtype}{list(value.shape)}"
        if most and value.size > most:
            digest = hashlib.sha256(np.asarray(value).tobytes()).hexdigest()[:6]
            shape = ", ".join(map(str, value.shape))
            return f"{value.dtype}[{shape}, 'sha {digest}']"
        return _array(np.asarray(value))
    if isinstance(value, Mapping):
        items = (f"{key!r}: {literal(x, most)}" for key, x in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(literal(x, most) for x in value) + "]"
    return value.text(most) if isinstance(value, Written) else repr(value)


def _array(array: np.ndarray) -> str:
    if array.ndim:
        return "[" + ", ".join(_array(np.asarray(x)) for x in array) + "]"
    if jnp.issubdtype(array.dtype, jnp.floating) and array.itemsize < 4:
        array = array.astype(np.float32)  # The dtype it is read back as.
    if np.isinf(array):
        return "1e999" if array > 0 else "-1e999"
    # NumPy's shortest digits that read back as the same number of this dtype.
    return str(array[()])
