"""Figure 5b of the induction-head paper, over five seeds: Singh et al. 2024, "What
needs to go right for an induction head?" (ICML; arXiv 2404.07129).

Of each seed a run that is not clamped, then six under the clamps of the figure, with
the heads that were found in the first. `small` is at the published lengths, 710
thousand steps; `smoke` is two seeds of it, a hundred steps each. The classes are those
of the study of the whole paper, `induction`.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from icl.data import Source

from ....study import StudyScale, Trial
from ..edits import CLAMPS
from ..runs import InductionRun, trials_of


SEEDS = (5, 6, 7, 8, 9)
# The checkpoints of these are for progress measures, as in A10.
KEPT = ("none", "previous-token", "match")


def runs(seeds: Iterable[int]) -> Iterator[InductionRun]:
    """Seven runs of each seed."""
    for seed in seeds:
        plain = f"seed-{seed}"
        yield InductionRun(plain, checkpoint_every=1000, init_seed=seed)
        for name, edits in CLAMPS.items():
            yield InductionRun(
                f"{plain}-{name}",
                edits,
                heads_of=plain,
                sequences=600_000,
                evaluate_every=1000,
                checkpoint_every=20_000 if name in KEPT else None,
                init_seed=seed,
            )


def trials(scale: StudyScale, folder: Path, data: Source | None) -> list[Trial]:
    """The runs of the study; see `sweeps.study.StudyModule`."""
    seeds = SEEDS[:2] if scale == "smoke" else SEEDS
    return trials_of([*runs(seeds)], scale, folder, data)
