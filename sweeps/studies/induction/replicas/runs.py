"""Figures 4b, 6, A7, A8, A15 and A17 of the induction-head paper, over five seeds:
Singh et al. 2024, "What needs to go right for an induction head?" (ICML; arXiv
2404.07129).

The paper has one seed for each figure. The runs are those of the study `induction`,
once for each seed; the heads that their edits name are found in the seed's own main
run. `small` has the published lengths, 1.2 million steps for each seed. `smoke` has a
few runs of two seeds, with a hundred steps each.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from icl.data import Source

from ....study import StudyScale, Trial
from .. import runs as paper
from ..runs import InductionRun, trials_of


SEEDS = (5, 6, 7, 8, 9)
# Layer 0 is taken from the seed's own run, and from those of the next two seeds.
DONORS = {"graft-own": 0, "graft-second": 1, "graft-third": 2}
# What the matching head of figure A15 gives the right label, of its attention.
SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
_MATCHES = tuple(f"match-{share:.2f}" for share in SHARES)
# Sequences of figure 6's clamped runs with 50 classes; its other clamped runs are as
# long.
_SUBCIRCUITS = 300_000


def runs(seeds: Sequence[int]) -> Iterator[InductionRun]:
    """All runs for each seed."""
    for k, seed in enumerate(seeds):
        plain = f"seed-{seed}"
        yield InductionRun(plain, checkpoint_every=100_000, init_seed=seed)
        for run in _templates():
            yield dataclasses.replace(
                run, name=f"{plain}-{run.name}", heads_of=plain, init_seed=seed
            )
        for name, later in DONORS.items():
            donor = f"seed-{seeds[(k + later) % len(seeds)]}"
            graft = InductionRun(f"{plain}-{name}", graft=donor, init_seed=seed)
            yield dataclasses.replace(graft, sequences=800_000, evaluate_every=1000)


def _templates() -> Iterator[InductionRun]:
    """The runs of the paper's seed to train again for each seed."""
    for run in (*paper.figures(), *paper.appendix()):
        if run.name.startswith(("only-head-", "heads-0-")) or run.name in _MATCHES:
            yield run
        elif run.name.startswith("clamp-previous-token"):
            yield dataclasses.replace(run, sequences=800_000)
        elif run.name in ("clamp-layer-0", "clamp-match", "clamp-layer-0-copy"):
            yield dataclasses.replace(run, sequences=_SUBCIRCUITS)
        elif run.name.endswith("long") or run.name.startswith("classes-"):
            yield run
        # Labels do not enter the logits of part B, so these would all be one run.
        elif run.name.startswith("labels-") and not run.name.endswith("layer-0-copy"):
            yield run


def trials(scale: StudyScale, folder: Path, data: Source | None) -> list[Trial]:
    """The runs of the study; see `sweeps.study.StudyModule`."""
    if scale == "smoke":
        few = [run for run in runs(SEEDS[:2]) if _kind(run) in SMOKE]
        return trials_of(few, scale, folder, data)
    return trials_of([*runs(SEEDS)], scale, folder, data)


def _kind(run: InductionRun) -> str:
    """The name of a run without its seed."""
    return "-".join(run.name.split("-")[2:])


# Only a few programs, as compiling takes longest.
SMOKE = {
    *("", "only-head-0", "only-head-1", "long", "graft-own", "graft-second"),
    *("clamp-previous-token", "clamp-previous-token-other", "heads-0-1", "heads-0-2"),
    *("match-1.00", "match-0.80", "clamp-layer-0-copy"),
}
