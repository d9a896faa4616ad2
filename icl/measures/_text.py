"""The text form of a measure: what the command line takes and `Measure.text` keeps."""

import ast
import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from opto.hints import did_you_mean

from ..plugins import check_one_origin, import_installed
from ._measure import AnyMeasure, Measure, OfModel, Under
from ._metrics import metric_names, task_metric


_Arguments = ParamSpec("_Arguments")
_Made = TypeVar("_Made", Measure, OfModel, Under)

# Closed: a text can name these and the task's metrics, and no text is ever evaluated.
_MEASURES: dict[str, Callable[..., AnyMeasure]] = {}
_UNSAID = ("over",)


def register(make: Callable[_Arguments, _Made]) -> Callable[_Arguments, _Made]:
    """Lets texts name a measure: a decorator of the function that makes it.

    `icl replay --measure NAME` and `parse` know it by the function's name then, with
    its arguments; the first line of its docstring says there what it is.

    **Raises:** `ValueError` for a name that another measure has.
    """

    @functools.wraps(make)
    def made(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Made:
        measure = make(*args, **kwargs)
        if isinstance(measure, Under):
            return measure
        bound = inspect.signature(make).bind(*args, **kwargs).arguments
        return dataclasses.replace(measure, text=_written(make, bound))

    name = make.__name__
    check_one_origin("measures", name, _MEASURES.get(name, make), make)
    _MEASURES[name] = made
    return made


def parse(text: str, task: Any = None, model: Any = None) -> AnyMeasure:
    """Reads a measure such as `induction_strength(layer=1)` or `in_context_accuracy`.

    The grammar is a name, and in brackets arguments if there are some: literals, or
    for `match_clamped(loss, heads='1:3')` and its like another measure. The names are
    those of `names`.

    **Arguments:**

    - `text`: What to read.
    - `task`: Whose metrics it may name.
    - `model`: One of the task, without which it is not known of every task which
        metrics it has.

    **Raises:** `ValueError` that points at what it does not understand.
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", None) or str(error) or "too deeply nested"
        raise ValueError(f"measure {text!r}: {reason}") from None
    import_installed()
    return _measure(text.strip(), node, _Scored(task, metric_names(task, model)))


def names(task: Any = None, model: Any = None) -> dict[str, str]:
    """What `parse` reads, with its arguments, and what each is in a line.

    **Arguments:** `task`, `model`: Whose metrics are listed too, as for `parse`.
    """
    import_installed()
    metrics = dict.fromkeys(metric_names(task, model), "A metric of the task.")
    return {
        **metrics,
        **{name + _takes(make): _line(make) for name, make in _MEASURES.items()},
    }


@dataclasses.dataclass(frozen=True)
class _Scored:
    """A task and the names of its metrics."""

    task: Any
    metrics: tuple[str, ...]


def _measure(text: str, node: ast.expr, scored: _Scored) -> AnyMeasure:
    call = node if isinstance(node, ast.Call) else None
    name = call.func if call else node
    if not isinstance(name, ast.Name):
        raise _error(text, node, "expected a measure such as induction_strength")
    if name.id in scored.metrics:
        if call:
            raise _error(text, name, f"the metric {name.id} takes no arguments")
        return task_metric(scored.task, name.id)
    if name.id not in _MEASURES:
        raise _error(text, name, _unknown(name.id, scored.metrics))
    args, keywords = _arguments(text, call, scored) if call else ([], {})
    return _made(text, name, args, keywords)


def _arguments(
    text: str, call: ast.Call, scored: _Scored
) -> tuple[list[Any], dict[str, Any]]:
    keywords: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            raise _error(text, keyword.value, "no ** here")
        if keyword.arg in _UNSAID:
            raise _error(text, keyword, f"{keyword.arg}= cannot be said in a text")
        if keyword.arg in keywords:
            raise _error(text, keyword, f"{keyword.arg}= is given twice")
        keywords[keyword.arg] = _value(text, keyword.value, scored)
    return [_value(text, node, scored) for node in call.args], keywords


def _value(text: str, node: ast.expr, scored: _Scored) -> Any:
    if isinstance(node, ast.Name | ast.Call):
        return _measure(text, node, scored)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        source = ast.get_source_segment(text, node)
        message = f"expected a number, a string or a measure, got {source!r}"
        raise _error(text, node, message) from None


def _made(text: str, name: ast.Name, args: list, keywords: dict) -> AnyMeasure:
    make = _MEASURES[name.id]
    try:
        inspect.signature(make).bind(*args, **keywords)
        return make(*args, **keywords)
    except (TypeError, ValueError) as error:
        message = f"{error}; it is {name.id}{_takes(make)}"
        raise _error(text, name, message) from None


def _unknown(name: str, metrics: tuple[str, ...]) -> str:
    known = [*metrics, *_MEASURES]
    hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
    lacking = "" if metrics else " (no task is given whose metric it could be)"
    return f"no measure {name!r}{lacking}{hint}"


def _written(make: Callable[..., Any], bound: dict[str, Any]) -> str:
    """A call as text, without what is left at its default."""
    parameters = inspect.signature(make).parameters
    arguments = ", ".join(
        f"{name}={value!r}"
        for name, value in bound.items()
        if name not in _UNSAID and value != parameters[name].default
    )
    return f"{make.__name__}({arguments})" if arguments else make.__name__


def _takes(make: Callable[..., Any]) -> str:
    """The arguments that a text can give, `(layer=None)`; nothing if there are none."""
    said = [
        name if default is inspect.Parameter.empty else f"{name}={default!r}"
        for name, parameter in inspect.signature(make).parameters.items()
        for default in [parameter.default]
        if name not in _UNSAID
    ]
    return f"({', '.join(said)})" if said else ""


def _line(make: Callable[..., Any]) -> str:
    return (make.__doc__ or "").strip().split("\n")[0]


def _error(text: str, node: ast.expr | ast.keyword, message: str) -> ValueError:
    # Python counts the bytes of a line.
    line = text.split("\n")[node.lineno - 1].encode()
    place = len(line[: node.col_offset].decode()) + 1
    return ValueError(f"measure {text!r}, character {place}: {message}")
