"""Figures 3, 4a and 5b of the induction-head paper, over ten seeds: Singh et al. 2024,
"What needs to go right for an induction head?" (ICML; arXiv 2404.07129).

Each seed has one run without clamps, then six under the clamps of figure 5b, with the
heads that were found in the first run. `small` has the published lengths, 1.4 million
steps; `smoke` has two seeds and a hundred steps for each run. The classes are those of
the study of the whole paper, `induction`.

We had seen seeds 5 to 9 before we wrote down the present claims of these figures, so
this study uses other seeds.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from icl.data import Source

from ....study import StudyScale, Trial
from ..edits import CLAMPS
from ..runs import InductionRun, trials_of


SEEDS = (10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
# The checkpoints of these runs are for progress measures, as in A10.
KEPT = ("none", "previous-token", "match")


def runs(seeds: Iterable[int]) -> Iterator[InductionRun]:
    """Seven runs for each seed."""
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
