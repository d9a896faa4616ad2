"""What `icl plot` and `icl report` look at."""

import dataclasses
import math

from ..experiments import load
from ..experiments.sets import check_set
from ..report.subject import Subject
from .options import RunOptions


@dataclasses.dataclass(frozen=True)
class SubjectOptions(RunOptions):
    """Which run, on which sequences, under which edits."""

    data: str = ""
    """The evaluation set that is looked at, the first if left out; of exemplar-label
    sequences also dense, every label pair and order of 100 pairs of classes, or
    dense:N, of N."""
    threshold: float | None = None
    """A loss, in the unit of the task's losses: where the set's loss first falls to it,
    the phase change is marked. The induction-head paper's figure 5b has 0.347, half of
    ln 2, in nats."""

    def subject(self) -> Subject:
        """The run as these options say.

        **Raises:** `ValueError` for a run, a set, an edit or a threshold that cannot
        be.
        """
        level = self.threshold
        if level is not None and not (math.isfinite(level) and level > 0):
            raise ValueError(f"--threshold must be a loss above 0, got {level}")
        trained = load(self.run)
        edits = None if self.as_trained else self.in_force(trained, record="**")
        data = check_set(trained, self.data)
        return Subject(trained, data, edits, threshold=level)
