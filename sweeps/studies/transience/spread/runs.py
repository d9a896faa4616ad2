"""Controls for the transience study: how the exemplars of a class differ.

Classes are `LowRankClasses`, each around one mean, with more or less noise along the
directions in which classes differ, no noise, or independent noise in each feature. All
else is as in the transience study.
"""

from pathlib import Path

from icl.data import Source

from ....study import StudyScale, Trial
from ..runs import synthetic


SEEDS = (10, 11, 12)
# For each noise: the name of its runs, the noise of each feature, that along classes.
NOISES: dict[str, tuple[str, float, float | None]] = {
    "none": ("none", 0.0, None),
    "0.25 along classes": ("along-0.25", 0.0, 0.25),
    "0.5 along classes": ("along-0.5", 0.0, 0.5),
    "0.75 along classes": ("along-0.75", 0.0, 0.75),
    "independent": ("independent-0.5", 0.5, None),
}


def trials(scale: StudyScale, folder: Path, data: Source | None) -> list[Trial]:
    """The runs of the study; see `sweeps.study.StudyModule`."""
    seeds = SEEDS[:1] if scale == "smoke" else SEEDS
    return [
        Trial(f"{name}-seed-{seed}", synthetic(scale, seed, spread, class_spread))
        for name, spread, class_spread in NOISES.values()
        for seed in seeds
    ]
