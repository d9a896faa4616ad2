"""Evaluation sets of exemplar-label sequences: only what differs from training."""

import dataclasses

from ...checks import check_not_negative, positive
from ...protocols import EvaluationConfig, TaskConfig
from ._context import Context, Mixture
from ._distribution import Distribution
from ._exemplars import ExemplarChoice
from ._labels import Labels, Relabel
from ._split import Split, SplitPart
from ._task import ExemplarLabel


@dataclasses.dataclass(frozen=True)
class EvaluationSet(EvaluationConfig):
    """Sequences drawn once from the evaluation seed; `None` means as in training."""

    size: int = 500
    """Number of sequences."""
    class_split: Split | None = None
    """Another division of the classes than in training."""
    exemplar_split: Split | None = None
    """Another division of each class's exemplars than in training."""
    classes: SplitPart | None = None
    """Which part of the classes to draw from."""
    exemplars: SplitPart | None = None
    """Which part of each class's exemplars to draw from."""
    relabelling: SplitPart | None = None
    """Which part of the label pairs to use, if classes are relabelled."""
    context: Context | Mixture | None = None
    """Which classes appear, and where."""
    distribution: Distribution | None = None
    """The distribution of the query's class over the split."""
    exemplar_choice: ExemplarChoice | None = None
    """Which exemplar of its class each position shows."""
    labels: Labels | None = None
    """The label of each class."""
    noise: float | None = None
    """Standard deviation of the noise on each example."""

    def __post_init__(self):
        positive("size", self.size)
        check_not_negative("noise", self.noise or 0.0)

    def of(self, task: TaskConfig) -> ExemplarLabel:
        """The settings of this set's sampler; a field that is `None` is the task's.

        **Raises:** `ValueError` for a task of another kind.
        """
        if not isinstance(task, ExemplarLabel):
            kind = type(task).__name__
            raise ValueError(
                f"an EvaluationSet needs an ExemplarLabel task, got {kind}; a TaskSet "
                "works with any task"
            )
        names = {field.name for field in dataclasses.fields(task)}
        own = {name: getattr(self, name, None) for name in names}
        changed = {name: value for name, value in own.items() if value is not None}
        task = dataclasses.replace(task, **changed)
        if self.relabelling is None:
            return task
        if not isinstance(task.labels, Relabel):
            kind = type(task.labels).__name__
            raise ValueError(f"relabelling= needs Relabel labels, got {kind}")
        labels = dataclasses.replace(task.labels, part=self.relabelling)
        return dataclasses.replace(task, labels=labels)
