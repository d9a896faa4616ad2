"""The text form of a measure, which the command line takes and `Measure.text` has."""

import ast
import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from opto.grammar import takes, Text
from opto.hints import did_you_mean

from ..plugins import Kinds
from ._measure import AnyMeasure, Measure, OfModel, Under
from ._metrics import metric_names, task_metric


_Arguments = ParamSpec("_Arguments")
_Made = TypeVar("_Made", Measure, OfModel, Under)

# A text can name only these and the task's metrics. No text is ever evaluated.
_MEASURES = Kinds("measures", ("icl.measures",))
_UNSAID = ("over",)


def register(make: Callable[_Arguments, _Made]) -> Callable[_Arguments, _Made]:
    """Decorator: lets texts name the measure that a function makes.

    `icl replay --measure NAME` and `parse` then know it by the function's name and
    arguments. The first line of its docstring is its description in the list of
    measures.

    **Raises:** `ValueError` if another measure has the name already.
    """

    @functools.wraps(make)
    def made(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Made:
        measure = make(*args, **kwargs)
        if isinstance(measure, Under):
            return measure
        bound = inspect.signature(make).bind(*args, **kwargs).arguments
        return dataclasses.replace(measure, text=_written(make, bound))

    _MEASURES.add(make.__name__, made)
    return made


def parse(text: str, task: Any = None, model: Any = None) -> AnyMeasure:
    """Reads a measure such as `induction_strength(layer=1)` or `in_context_accuracy`.

    A text is a name, and arguments in brackets if there are any. An argument is a
    literal, or another measure as in `match_clamped(loss, heads='1:3')`. The names are
    those that `names` lists.

    **Arguments:**

    - `text`: What to read.
    - `task`: The text may name the metrics of this task.
    - `model`: A model of the task; without it, the metrics of some tasks are unknown.

    **Raises:** `ValueError` that points at what it does not understand, and for a
    module that cannot be imported.
    """
    read = Text(text.strip(), "measure ")
    node = read.expression()
    _MEASURES.found()
    return _measure(read, node, _Scored(task, metric_names(task, model)))


def names(task: Any = None, model: Any = None) -> dict[str, str]:
    """What `parse` reads: each measure with its arguments, and a line on what it is.

    **Arguments:** `task`, `model`: As for `parse`; the task's metrics are listed too.
    """
    metrics = dict.fromkeys(metric_names(task, model), "A metric of the task.")
    return {
        **metrics,
        **{
            f"{name}{_listed(make)}": _line(make)
            for name, make in _MEASURES.found().items()
        },
    }


@dataclasses.dataclass(frozen=True)
class _Scored:
    """A task and the names of its metrics."""

    task: Any
    metrics: tuple[str, ...]


def _measure(read: Text, node: ast.expr, scored: _Scored) -> AnyMeasure:
    call = node if isinstance(node, ast.Call) else None
    name = call.func if call else node
    if not isinstance(name, ast.Name):
        raise read.error(node, "expected a measure such as induction_strength")
    if name.id in scored.metrics:
        if name.id in _MEASURES:
            both = f"a metric of the task and a measure are both called {name.id}"
            raise read.error(name, f"{both}; rename one")
        if call:
            raise read.error(name, f"the metric {name.id} takes no arguments")
        return task_metric(scored.task, name.id)
    if name.id not in _MEASURES:
        raise read.error(name, _unknown(name.id, scored.metrics))
    if call is None:
        return _made(read, name, [], {})
    value = lambda node: _value(read, node, scored)
    args, keywords = read.arguments(call, value, unsaid=_UNSAID)
    return _made(read, name, args, keywords)


def _value(read: Text, node: ast.expr, scored: _Scored) -> Any:
    if isinstance(node, ast.Name | ast.Call):
        return _measure(read, node, scored)
    return read.literal(node, "a number, a string or a measure")


def _made(read: Text, name: ast.Name, args: list, keywords: dict) -> AnyMeasure:
    make = _MEASURES[name.id]
    try:
        inspect.signature(make).bind(*args, **keywords)
        return make(*args, **keywords)
    except (TypeError, ValueError) as error:
        message = f"{error}; the form is {name.id}{takes(make, _UNSAID)}"
        raise read.error(name, message) from None


def _unknown(name: str, metrics: tuple[str, ...]) -> str:
    known = [*metrics, *_MEASURES]
    hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
    lacking = "" if metrics else " (no task is given for metrics)"
    return f"no measure {name!r}{lacking}{hint}"


def _written(make: Callable[..., Any], bound: dict[str, Any]) -> str:
    """A call as text, without arguments that have their default."""
    parameters = inspect.signature(make).parameters
    arguments = ", ".join(
        f"{name}={value!r}"
        for name, value in bound.items()
        if name not in _UNSAID and value != parameters[name].default
    )
    return f"{make.__name__}({arguments})" if arguments else make.__name__


def _listed(make: Callable[..., Any]) -> str:
    """The arguments that a text can give, in the form of a text."""
    return takes(make, _UNSAID).replace("*, ", "")


def _line(make: Callable[..., Any]) -> str:
    return (make.__doc__ or "").strip().split("\n")[0]
