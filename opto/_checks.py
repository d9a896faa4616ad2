"""Checks of single arguments. Unlike Python, they do not take True for the number 1."""

import inspect
from typing import Any

import numpy as np


def whole(name: str, value: Any, least: int, what: str = "") -> int:
    """A whole number of at least `least`; raises `ValueError` for anything else.

    **Arguments:** `what`: What the number is, for the message.
    """
    fine = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not fine or value < least:
        what = what or f"a whole number, {least} or more"
        raise ValueError(f"{name} is {what}, got {value!r}")
    return int(value)


def takes_tap(name: str, model: Any) -> None:
    """Raises `ValueError` unless `model` can be called with `tap=`."""
    if not callable(model):
        raise ValueError(f"{name} must be callable with tap=, got {model!r}")
    try:
        given = inspect.signature(model).parameters
    except ValueError:  # Written in C.
        return
    if "tap" not in given and all(x.kind is not x.VAR_KEYWORD for x in given.values()):
        raise ValueError(f"{name} must take tap=, got {model!r}")


def truth(name: str, value: Any) -> bool:
    """True or False; raises `ValueError` for anything else, such as "no" and 0."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is True or False, got {value!r}")
    return bool(value)


def no_truth(name: str, value: Any) -> Any:
    """`value`; raises `ValueError` for texts, dates, True and False."""
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    if value is None or isinstance(value, bool | str | bytes) or kind in "bmMSUO":
        raise ValueError(f"{name} is a number, got {value!r}")
    return value
