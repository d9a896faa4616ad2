"""Controls for the transience study: how the exemplars of a class differ.

The transience study has noise of 0.5 along the directions in which classes differ. This
study has less and more of it, no noise, and independent noise of 0.5 in each feature.
All else is as in the transience study at scale `small`, which also has the runs at 0.5;
at `paper`, classes and lengths are as published.
"""

import dataclasses
from pathlib import Path

from icl.data import LowRankClasses, Source

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
        _with_noise(trial, name, spread, class_spread, seed)
        for name, spread, class_spread in NOISES.values()
        for seed in seeds
        for trial in synthetic(scale, [seed])
    ]


def _with_noise(
    trial: Trial, name: str, spread: float, class_spread: float | None, seed: int
) -> Trial:
    experiment = trial.experiment
    if not isinstance(experiment.data, LowRankClasses):
        raise TypeError("the transience study's own classes are LowRankClasses")
    data = dataclasses.replace(
        experiment.data, spread=spread, class_spread=class_spread
    )
    return Trial(f"{name}-seed-{seed}", dataclasses.replace(experiment, data=data))
