"""The text form of a measure: what the command line takes and `Measure.text` keeps."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ._measure import AnyMeasure, Measure, OfModel


_Arguments = ParamSpec("_Arguments")
_Made = TypeVar("_Made", Measure, OfModel)

# Closed: a text can name these and the task's metrics, and no text is ever evaluated.
_MEASURES: dict[str, Callable[..., AnyMeasure]] = {}

# What a text cannot say: it is given by who reads the text.
_NOT_IN_TEXTS = ("over",)


def named(make: Callable[_Arguments, _Made]) -> Callable[_Arguments, _Made]:
    """Lets texts name what a function makes, which gets its text; a decorator."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    def made(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Made:
        bound = signature.bind(*args, **kwargs).arguments
        given = {
            name: value
            for name, value in bound.items()
            if name not in _NOT_IN_TEXTS and value != signature.parameters[name].default
        }
        arguments = ", ".join(f"{name}={value!r}" for name, value in given.items())
        text = f"{make.__name__}({arguments})" if given else make.__name__
        return dataclasses.replace(make(*args, **kwargs), text=text)

    _MEASURES[make.__name__] = made
    return made
