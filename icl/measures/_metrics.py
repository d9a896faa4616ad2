"""The task's own metrics as measures: `loss`, `accuracy` and so on."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, PyTree

import opto
from opto.hints import did_you_mean

from ..batches import example_of
from ._measure import Measure, Reduction, SequenceMean


_MEAN = SequenceMean()


def task_metric(task: Any, name: str, *, over: Reduction = _MEAN) -> Measure:
    """One of the task's metrics, such as `accuracy` or `in_context_loss`.

    **Arguments:**

    - `task`: The task whose `metrics` has it; see `icl.tasks.classification`.
    - `name`: The name of the metric.
    - `over`: How to combine the sequences.

    **Raises:** `ValueError` if the task does not have the metric. If the task does not
    say how many labels it has, this error comes only when the measure is taken.
    """
    known = metric_names(task)
    if known:
        _check(name, known)

    def fn(record: opto.toolkit.Record, outputs: PyTree, example: Any) -> Array:
        metrics = task.metrics(outputs, example)
        _check(name, tuple(metrics))
        return metrics[name]

    label = name.replace("_", " ")
    # If the metric is one number, the name of the axis is ignored.
    return Measure(fn, over=over, label=label, text=name, axes="position")


def metric_names(task: Any, model: PyTree | None = None) -> tuple[str, ...]:
    """The names of the metrics that a task computes from a model's outputs.

    Without a model, the names are known only for a task whose outputs are a number for
    each label; for other tasks there are none.
    """
    count = getattr(task, "num_labels", None)
    if task is None or (model is None and count is None):
        return ()
    example = example_of(task)
    if model is None:
        outputs = jax.ShapeDtypeStruct((count,), "float32")
    else:
        outputs = eqx.filter_eval_shape(opto.toolkit.lift(task.forward), model, example)
    return tuple(eqx.filter_eval_shape(task.metrics, outputs, example))


def _check(name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
        raise ValueError(f"no metric {name!r}{hint}")
