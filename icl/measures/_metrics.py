"""The task's own metrics, `loss`, `accuracy` and so on, as measures."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, PyTree

import opto
from opto.hints import did_you_mean

from ..batches import example_of
from ._measure import Measure, Reduction, SequenceMean


_MEAN = SequenceMean()


def task_metric(
    task: Any,
    name: str,
    *,
    over: Reduction = _MEAN,
) -> Measure:
    """One of the task's metrics, such as `accuracy` or `in_context_loss`.

    **Arguments:**

    - `task`: Whose `metrics` it is; see `icl.tasks.classification`.
    - `name`: Which.
    - `over`: How the sequences are put together.

    **Raises:** `ValueError` for a metric that the task does not have; for a task that
    does not say how many labels it has, when it is measured.
    """
    known = metric_names(task)
    if known:
        _check(name, known)
    label = name.replace("_", " ")
    # The name of an axis is left aside where the metric is one number.
    return Measure(
        _Metric(task, name), over=over, label=label, text=name, axes="position"
    )


def metric_names(task: Any, model: PyTree | None = None) -> tuple[str, ...]:
    """The metrics of a task, as it scores what a model says.

    Without a model, only of a task whose outputs are a number for each label; none of
    another.
    """
    if task is None:
        return ()
    example = example_of(task)
    if model is None:
        count = getattr(task, "num_labels", None)
        if count is None:
            return ()
        outputs = jax.ShapeDtypeStruct((count,), "float32")
    else:
        outputs = eqx.filter_eval_shape(opto.lift(task.forward), model, example)
    return tuple(eqx.filter_eval_shape(task.metrics, outputs, example))


@dataclasses.dataclass(frozen=True, eq=False)
class _Metric:
    task: Any
    name: str

    def __call__(self, record: opto.Record, outputs: PyTree, example: Any) -> Array:
        metrics = self.task.metrics(outputs, example)
        _check(self.name, tuple(metrics))
        return metrics[self.name]


def _check(name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        hint = did_you_mean(name, known) or f"; there is {', '.join(known)}"
        raise ValueError(f"no metric {name!r}{hint}")
