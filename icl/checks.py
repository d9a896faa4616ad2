"""Checks of what users give, with errors that name the argument."""

import math
import reprlib
from typing import Any, get_args

import numpy as np
from jaxtyping import ArrayLike


def positive(name: str, value: object, most: int = 2**63 - 1) -> None:
    """Raises `ValueError` unless `value` is an integer between 1 and `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        got = reprlib.repr(value)
        raise ValueError(f"{name} must be a positive integer, got {got}")
    if value > most:
        raise ValueError(f"{name} must be at most {most}, got {value}")


def check_scale(name: str, value: float) -> None:
    """Raises `ValueError` unless a number is positive and finite."""
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")


def instance(name: str, value: object, wanted: Any) -> None:
    """Raises `ValueError` unless `value` is of a class, or of a class in a union."""
    if not isinstance(value, wanted):
        kinds = (kind.__name__ for kind in get_args(wanted) or (wanted,))
        got = reprlib.repr(value)
        raise ValueError(f"{name} must be of type {' or '.join(kinds)}, got {got}")


def finite(name: str, values: ArrayLike) -> None:
    """Raises `ValueError` unless all numbers of an array are finite."""
    there = np.isfinite(np.asarray(values))
    if not there.all():
        wrong = f"{(~there).sum()} of {there.size}"
        raise ValueError(f"{name} must be finite, got {wrong} that are not")
