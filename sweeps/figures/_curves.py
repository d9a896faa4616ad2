"""The logged curves of a figure's runs, put together."""

from pathlib import Path

import numpy as np
from jaxtyping import Float

from icl import Run

from ..analysis import crossing, curves_of, logged_curve, MetricCurves
from ._figure import Runs


def curves(runs: Runs, set: str = "train", metric: str = "loss") -> MetricCurves:
    """The mean of a metric over an evaluation set, by the label of each run.

    **Raises:** `ValueError` if a run has not logged it.
    """
    return curves_of(
        (label, _logged(folder, set, metric))
        for label, folders in runs.folders.items()
        for folder in folders
    )


def _logged(folder: Path, set: str, metric: str) -> tuple[np.ndarray, np.ndarray]:
    events, values = logged_curve(folder, metric, data=set)
    if not len(events):
        raise ValueError(f"{folder} has not logged {metric} on a set {set!r}")
    return events, values


def has_set(runs: Runs, set: str) -> bool:
    """Whether all runs were evaluated on a set of that name."""
    every = (folder for folders in runs.folders.values() for folder in folders)
    return all(set in Run(folder).log.evaluations for folder in every)


def crossings(
    found: MetricCurves, level: float
) -> dict[str, Float[np.ndarray, " seed"]]:
    """The sequences seen when each run first falls to a level, by label.

    Curves are linear between the points; `inf` for a run that never falls to it.
    """
    return {
        label: np.array([crossing(found.sequences, y, level) for y in values.T])
        for label, values in found.by_label.items()
    }
