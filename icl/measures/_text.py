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
        bound = inspect.signature(make).bind(*args, **kwargs).arguments
        measure = make(*args, **kwargs)
        if isinstance(measure, Under):
            return measure
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
    return _Reading(read, task, metric_names(task, model)).measure(node)


def names(task: Any = None, model: Any = None) -> dict[str, str]:
    """What `parse` reads: each measure with its arguments, and a line on what it is.

    **Arguments:** `task`, `model`: As for `parse`; the task's metrics are listed too.
    """
    listed = dict.fromkeys(metric_names(task, model), "A metric of the task.")
    for name, make in _MEASURES.found().items():
        arguments = takes(make, _UNSAID).replace("*, ", "")
        listed[f"{name}{arguments}"] = (make.__doc__ or "").strip().split("\n")[0]
    return listed


@dataclasses.dataclass(frozen=True)
class _Reading:
    """A text that is being read, and the task's metrics that it may name."""

    text: Text
    task: Any
    metrics: tuple[str, ...]

    def measure(self, node: ast.expr) -> AnyMeasure:
        call = node if isinstance(node, ast.Call) else None
        name = call.func if call else node
        if not isinstance(name, ast.Name):
            wanted = "expected a measure such as induction_strength"
            raise self.text.error(node, wanted)
        if name.id in self.metrics:
            if name.id in _MEASURES:
                both = f"a metric of the task and a measure are both called {name.id}"
                raise self.text.error(name, f"{both}; rename one")
            if call:
                wrong = f"the metric {name.id} takes no arguments"
                raise self.text.error(name, wrong)
            return task_metric(self.task, name.id)
        if name.id not in _MEASURES:
            raise self.text.error(name, self._unknown(name.id))
        args, keywords = [], {}
        if call:
            args, keywords = self.text.arguments(call, self._value, unsaid=_UNSAID)
        make = _MEASURES[name.id]
        try:
            return make(*args, **keywords)
        except (TypeError, ValueError) as error:
            form = f"{name.id}{takes(make, _UNSAID)}"
            raise self.text.error(name, f"{error}; the form is {form}") from None

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name | ast.Call):
            return self.measure(node)
        return self.text.literal(node, "a number, a string or a measure")

    def _unknown(self, name: str) -> str:
        known = [*self.metrics, *_MEASURES]
        hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
        missing = "" if self.metrics else " (no task is given for metrics)"
        return f"no measure {name!r}{missing}{hint}"


def _written(make: Callable[..., Any], bound: dict[str, Any]) -> str:
    """A call as text, without arguments that have their default."""
    parameters = inspect.signature(make).parameters
    arguments = ", ".join(
        f"{name}={value!r}"
        for name, value in bound.items()
        if name not in _UNSAID and value != parameters[name].default
    )
    return f"{make.__name__}({arguments})" if arguments else make.__name__
