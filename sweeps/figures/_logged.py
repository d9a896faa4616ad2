"""What runs logged, put together for a figure."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float, Shaped

from icl import Run
from icl.analysis import crossing, logged_curve, together

from ._figure import Runs


@dataclasses.dataclass(frozen=True)
class Curves:
    """A metric of an evaluation set over training, of several runs.

    **Fields:**

    - `sequences`: Sequences seen, all points at which one of them was looked at.
    - `values`: `[point, run]`: linear between a run's own points, NaN after its last.
    - `labels`: What each run is in the figure, `[run]`.
    """

    sequences: Float[np.ndarray, " point"]
    values: Float[np.ndarray, "point run"]
    labels: Shaped[np.ndarray, " run"]

    def of(self, label: str) -> Float[np.ndarray, "point seed"]:
        """Those of a run of the figure, a column for each seed."""
        return self.values[:, self.labels == label]


def curves(runs: Runs, set: str = "train", metric: str = "loss") -> Curves:
    """The mean of a metric over an evaluation set.

    **Raises:** `ValueError` if a run has not logged it.
    """
    every = {
        (label, seed): logged(folder, set, metric)
        for label, folders in runs.folders.items()
        for seed, folder in zip(runs.seeds, folders, strict=True)
    }
    points, values = together(every)
    labels = np.array([label for label, _ in every])
    return Curves(points.astype(float), values, labels)


def logged(folder: Path, set: str, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Sequences seen at each evaluation, and the mean over the set's sequences.

    **Raises:** `ValueError` if it was not logged.
    """
    events, values = logged_curve(folder, metric, data=set)
    if not len(events):
        raise ValueError(f"{folder} has not logged {metric} of a set {set!r}")
    return events, values


def has_set(runs: Runs, set: str) -> bool:
    """Whether all runs were evaluated on a set of that name."""
    every = (folder for folders in runs.folders.values() for folder in folders)
    return all(set in Run(folder).log.evaluations for folder in every)


def crossings(found: Curves, level: float) -> dict[str, Float[np.ndarray, " seed"]]:
    """By label, the sequences seen when each run first comes down to a level.

    Linear between the points; `inf` for a run that does not.
    """
    return {
        str(label): np.array([crossing(found.sequences, y, level) for y in values.T])
        for label, values in by_label(found).items()
    }


def by_label(found: Curves) -> Mapping[str, Float[np.ndarray, "point seed"]]:
    """The curves of each run of the figure, in order."""
    return {str(label): found.of(label) for label in dict.fromkeys(found.labels)}
