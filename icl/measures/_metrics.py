"""The task's own metrics, `loss`, `accuracy` and so on, as measures."""

import dataclasses
import difflib
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, PyTree

import opto

from ._measure import Mean, Measure, Reduction


_MEAN = Mean()


def task_metric(
    task: Any,
    name: str,
    *,
    over: Reduction = _MEAN,
) -> Measure:
    """One of the task's metrics, such as `accuracy` or `in_context_loss`.

    **Arguments:**

    - `task`: Whose `metrics` it is; see `icl.metrics.classification`.
    - `name`: Which.
    - `over`: How the sequences are put together.

    **Raises:** `ValueError` for a metric that the task does not have; for a task that
    does not say how many labels it has, when it is measured.
    """
    known = metric_names(task)
    if known:
        _check(name, known)
    label = name.replace("_", " ")
    return Measure(_Metric(task, name), over=over, label=label, text=name)


def metric_names(task: Any) -> tuple[str, ...]:
    """The metrics of a task; none if it does not say how many labels it has."""
    if getattr(task, "num_labels", None) is None:
        return ()
    example = eqx.filter_eval_shape(lambda: task.sample(key=jax.random.key(0)))
    logits = jax.ShapeDtypeStruct((task.num_labels,), "float32")
    return tuple(eqx.filter_eval_shape(task.metrics, logits, example))


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
        close = difflib.get_close_matches(name, known, n=1)
        hint = (
            f"did you mean {close[0]!r}?" if close else f"there is {', '.join(known)}"
        )
        raise ValueError(f"no metric {name!r}; {hint}")
