"""Checks of what users give, with errors that name the argument."""

import math
import numbers
import reprlib
from typing import Any, get_args

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike

from opto.hints import did_you_mean


def positive(name: str, value: Any) -> None:
    """Raises `ValueError` unless `value` is a positive integer."""
    if not isinstance(value, int) or value < 1:
        got = reprlib.repr(value)
        raise ValueError(f"{name} must be a positive integer, got {got}")


def check_index(name: str, value: Any) -> None:
    """Raises `ValueError` unless `value` is an integer of at least 0."""
    if not isinstance(value, int) or value < 0:
        got = reprlib.repr(value)
        raise ValueError(f"{name} must be an integer of at least 0, got {got}")


def check_divisor(name: str, value: Any, of: str, whole: int) -> None:
    """Raises `ValueError` unless `value` is a positive integer that divides `whole`."""
    positive(name, value)
    if whole % value:
        raise ValueError(f"{name} must divide {of}={whole}, got {value}")


def check_number(name: str, value: Any) -> None:
    """Raises `ValueError` unless `value` is a finite number."""
    if not _is_real(value) or not -math.inf < value < math.inf:
        raise ValueError(f"{name} must be a finite number, got {value!r}")


def check_scale(name: str, value: Any) -> None:
    """Raises `ValueError` unless `value` is a positive and finite number."""
    if not _is_real(value) or not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value!r}")


def check_not_negative(name: str, value: Any) -> None:
    """Raises `ValueError` unless `value` is a finite number of at least 0."""
    if not _is_real(value) or not 0 <= value < math.inf:
        raise ValueError(f"{name} must be at least 0 and finite, got {value!r}")


def check_probability(name: str, value: Any) -> None:
    """Raises `ValueError` unless `value` is a number in [0, 1]."""
    if not _is_real(value) or not 0 <= value <= 1:
        raise ValueError(f"{name} must be in [0, 1], got {value!r}")


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real)


def check_seed(name: str, seed: object) -> None:
    """Raises `ValueError` unless `seed` is a whole number that makes a valid key."""
    if not isinstance(seed, int | np.integer):
        raise ValueError(f"{name} must be an integer, got {reprlib.repr(seed)}")
    if not 0 <= seed < 2**32:
        raise ValueError(f"{name} must be in [0, 2^32), got {seed}")


def check_one_of(name: str, value: object, choices: Any) -> None:
    """Raises `ValueError`, with the nearest one, unless `value` is in a `Literal`."""
    known = get_args(choices)
    if value not in known:
        got = f"{reprlib.repr(value)}{did_you_mean(str(value), known)}"
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {got}")


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


def check_axes(**arrays: tuple[Any, str]) -> None:
    """Raises `ValueError` unless arrays have the named axes; equal names, equal sizes.

    Shapes are known while JAX traces, so this costs nothing in a compiled program.

    **Arguments:** `arrays`: By name, an array and its axes, such as `"point dim"`.
    """
    sizes: dict[str, int] = {}
    for name, (array, axes) in arrays.items():
        names, shape = axes.split(), getattr(array, "shape", None)
        known = (f"{axis}={sizes[axis]}" if axis in sizes else axis for axis in names)
        wanted = f"{name} must be an array [{', '.join(known)}]"
        if shape is None:
            raise ValueError(f"{wanted}, got {reprlib.repr(array)}")
        pairs = zip(names, shape, strict=False)
        fits = all(sizes.setdefault(axis, size) == size for axis, size in pairs)
        if not fits or len(shape) != len(names):
            raise ValueError(f"{wanted}, got shape {[*shape]}")


def check_prompt(xs: Array | np.ndarray, ys: Array | np.ndarray) -> None:
    """Raises `ValueError` unless these are points and one value for each, as floats.

    There must be at least one point, of at least one component.
    """
    check_axes(xs=(xs, "point dim"), ys=(ys, "point"))
    if not xs.size:
        wanted = "xs must have at least one point of at least one component"
        raise ValueError(f"{wanted}, got shape {[*xs.shape]}")
    for name, array in (("xs", xs), ("ys", ys)):
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise ValueError(f"{name} must be floats, got {array.dtype}")


def check_labels(name: str, labels: Array | np.ndarray) -> None:
    """Raises `ValueError` unless all labels are 0 or 1.

    While JAX traces, nobody knows the values: then nothing is checked. Public data has
    labels as floats, too.
    """
    if isinstance(labels, Tracer):
        return
    values = np.asarray(labels)
    wrong = values[(values != 0) & (values != 1)]
    if wrong.size:
        raise ValueError(f"{name} must be 0 or 1, got {wrong.min()}")


def check_labelled(context_x: Any, context_y: Any, query_x: Any) -> None:
    """Raises `ValueError` unless these are points, a label for each, and a query."""
    points = {"context_x": (context_x, "pair dim"), "query_x": (query_x, "dim")}
    check_axes(**points, context_y=(context_y, "pair"))
    check_labels("context_y", context_y)
