"""Curves that runs logged over training, one by one and side by side."""

import functools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from icl import Run
from icl.experiments.curves import Curves, curves
from icl.runs import is_run


Curve = tuple[np.ndarray, np.ndarray]
"""Sequences seen and values, `[event]` each."""


@dataclass(frozen=True)
class MetricCurves:
    """A metric of several runs over training.

    **Fields:**

    - `sequences`: Sequences seen, at all points where any of the runs was evaluated.
    - `values`: `[point, run]`; linear between a run's own points, NaN before its first
        and after its last.
    - `labels`: `[run]`; runs with the same label differ in seed only.
    """

    sequences: Float[np.ndarray, " point"]
    values: Float[np.ndarray, "point run"]
    labels: tuple[str, ...]

    @property
    def by_label(self) -> Mapping[str, Float[np.ndarray, "point seed"]]:
        """The values of each label, with a column for each seed."""
        labels = np.array(self.labels)
        return {
            name: self.values[:, labels == name] for name in dict.fromkeys(self.labels)
        }


def curves_of(labelled: Iterable[tuple[str, Curve]]) -> MetricCurves:
    """Puts the labelled curves of runs on one axis."""
    pairs = [*labelled]
    points, values = together([curve for _, curve in pairs])
    return MetricCurves(points.astype(float), values, tuple(x for x, _ in pairs))


def logged_curve(
    run: str | os.PathLike, metric: str = "loss", *, data: str = "train"
) -> Curve:
    """A metric of a run over training so far: its mean over an evaluation set.

    **Returns:** Sequences seen and values, `[event]` each; empty if the run, the set or
    the metric is missing.
    """
    log = Path(run) / "log.h5"
    if not log.is_file() or not is_run(run):
        return np.empty(0, np.int64), np.empty(0)
    # Cached, as notebooks read a log many times; read again if it was written since.
    found = _curves(Path(run), log.stat().st_mtime_ns)
    if metric not in found.numbers.get(data, {}):
        return np.empty(0, np.int64), np.empty(0)
    return found.events, found.numbers[data][metric]


@functools.lru_cache(maxsize=256)
def _curves(path: Path, written_at: int) -> Curves:
    """The learning curves of a run; `written_at` is a key of the cache."""
    return curves(Run(path))


def together(
    curves: Mapping[str, Curve] | Iterable[Curve],
) -> tuple[np.ndarray, np.ndarray]:
    """Puts curves with different points on one axis.

    **Returns:**

    The points of all curves, `[point]`, and the values there, `[point, curve]`: linear
    between a curve's own points, NaN before its first and after its last.
    """
    pairs = [*curves.values()] if isinstance(curves, Mapping) else [*curves]
    points = np.unique(np.concatenate([np.asarray(x) for x, _ in pairs] or [[]]))
    values = [
        np.interp(points, x, y, left=np.nan, right=np.nan)
        if len(x)
        else np.full(len(points), np.nan)
        for x, y in pairs
    ]
    empty = np.empty((len(points), 0))
    return points, np.stack(values, 1) if values else empty
