"""Checks that several modules of this folder share."""

import math


def check_integer(name: str, value: object, minimum: int) -> None:
    """Raises `ValueError` unless `value` is an integer that is at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ValueError(
            f"{name} must be an integer of at least {minimum}, got {value!r}"
        )


def check_spread(name: str, value: float) -> None:
    """Raises `ValueError` unless `value` can be a standard deviation."""
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} must be finite and at least 0, got {value!r}")
