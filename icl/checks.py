"""Checks of what users give, with errors that name the argument."""

import numpy as np
from jaxtyping import ArrayLike


def positive(name: str, value: object) -> None:
    """Raises `ValueError` unless `value` is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")


def finite(name: str, values: ArrayLike) -> None:
    """Raises `ValueError` unless all numbers of an array are finite."""
    there = np.isfinite(np.asarray(values))
    if not there.all():
        wrong = f"{(~there).sum()} of {there.size}"
        raise ValueError(f"{name} must be finite, got {wrong} that are not")
