"""Checks of single arguments."""

import inspect
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .hints import brief


def whole(name: str, value: Any, least: int, what: str = "") -> int:
    """A whole number of at least `least`; raises `ValueError` for anything else.

    **Arguments:** `what`: What the number is, for the message.
    """
    if not isinstance(value, int | np.integer) or value < least:
        what = what or f"a whole number, {least} or more"
        raise ValueError(f"{name} is {what}, got {brief(value)}")
    return int(value)


def named(argument: str, text: Any) -> str:
    """`text`; raises `ValueError` unless it is a string."""
    if not isinstance(text, str):
        raise ValueError(f"{argument} must be a string, got {brief(text)}")
    return text


def takes_tap(name: str, model: Any) -> None:
    """Raises `ValueError` unless `model` can be called with `tap=`."""
    if not callable(model):
        raise ValueError(f"{name} must be callable with tap=, got {brief(model)}")
    try:
        given = inspect.signature(model).parameters
    except ValueError:  # Written in C.
        return
    if "tap" not in given and all(x.kind is not x.VAR_KEYWORD for x in given.values()):
        kind = getattr(model, "__qualname__", type(model).__qualname__)
        way = "give it `tap=opto.identity` and call `x = tap('name', x, 'seq d_model')`"
        if isinstance(model, eqx.Module):
            way = f"`opto.tapped({name})` gives its submodules sites; or {way}"
        raise ValueError(f"{name} must take tap=, got {kind}; {way}")


def is_metric(metric: Any) -> None:
    """Raises `ValueError` unless `metric` can be called."""
    if not callable(metric):
        raise ValueError(
            f"metric is a function of a model's output, got {brief(metric)}"
        )


def one_number(value: Any) -> Float[Array, ""]:
    """What a metric gave; raises `ValueError` unless it has a gradient."""
    number = jnp.asarray(value)
    if number.shape != ():
        raise ValueError(f"the metric must be one number, got {number.shape}")
    if not jnp.issubdtype(number.dtype, jnp.floating):
        got = f"got {number.dtype}, which has no gradient"
        raise ValueError(f"the metric must be a floating-point number, {got}")
    return number
