"""Settings that come with the weights of a public code."""

import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import ArrayLike

from opto.hints import did_you_mean

from ..text import read_json


_FLOATS = ("float16", "bfloat16", "float32", "float64")


def read_config(what: str, given: Mapping[str, Any] | str) -> dict[str, Any]:
    """The settings, which are a mapping or its JSON text.

    **Raises:** `ValueError`, which names `what`, for anything else.
    """
    wanted = f"{what} must be a mapping or its JSON"
    try:
        found = read_json(given) if isinstance(given, str) else given
    except ValueError as error:
        raise ValueError(f"{wanted}: {error}") from None
    if not isinstance(found, Mapping):
        raise ValueError(f"{wanted}, got a {type(found).__name__}")
    return dict(found)


def check_misspelt(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises `ValueError` for a name that is nearly, but not quite, a known one.

    Reference files also have settings of training and of data. They say nothing about a
    model, so names that are far from all known ones are allowed.
    """
    known = tuple(known)
    for name in given:
        # Nearer than for a hint, as short names of training are alike by chance.
        if name not in known and (hint := did_you_mean(name, known, cutoff=0.8)):
            raise ValueError(f"{what}: no setting {name!r}{hint}")


def check_known(what: str, given: Iterable[Any], known: Iterable[str]) -> None:
    """Raises `ValueError` for a name that is not known."""
    known = tuple(known)
    for name in given:
        if name not in known:
            hint = did_you_mean(str(name), known)
            hint = hint or f"; known: {', '.join(known) or 'none'}"
            raise ValueError(f"{what} {name!r}{hint}")


def check_switch(name: str, value: object) -> None:
    """Raises `ValueError` unless the value is true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {reprlib.repr(value)}")


def arrays_of(parameters: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
    """The stored arrays of a model by name.

    **Raises:** `ValueError` unless these are arrays, and their names are texts.
    """
    if not isinstance(parameters, Mapping):
        got = reprlib.repr(parameters)
        raise ValueError(f"parameters must be arrays by name, got {got}")
    return {_text(name): _array(name, x) for name, x in parameters.items()}


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError(f"the names of parameters must be texts, got {name!r}")
    return name


def _array(name: Any, values: Any) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be an array: {error}") from None


def floats_of(parameters: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
    """Like `arrays_of`, and each must be as `floats` wants it."""
    return {name: floats(name, x) for name, x in arrays_of(parameters).items()}


def floats(name: str, array: np.ndarray) -> np.ndarray:
    """A stored array. Floats of 16 bits become 32.

    **Raises:** `ValueError` if its numbers are no floats, or not finite.
    """
    if array.dtype.name not in _FLOATS:
        wanted = f"{name} must be of type {' or '.join(_FLOATS)}"
        raise ValueError(f"{wanted}, got {array.dtype.name}")
    if array.dtype.itemsize < 4:
        array = array.astype(np.float32)
    if not np.isfinite(array).all():
        wrong = np.count_nonzero(~np.isfinite(array))
        raise ValueError(f"{name} must be finite, got {wrong} numbers that are not")
    return array
