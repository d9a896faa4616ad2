"""The numbers of a figure's runs, seed by seed, and how they are drawn."""

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

from icl import plots, Run

from ..analysis import crossing, curves_of, Estimate, logged_curve, MetricCurves
from ._figure import Runs
from ._row import Row


BySeed = dict[str, Float[np.ndarray, " seed"]]
"""The numbers of all seeds by name."""


_Measured = TypeVar("_Measured")
_Measure = Callable[[Path], Mapping[str, float]]


def by_seed(
    each: Iterable[_Measured], of: Callable[[_Measured], Mapping[str, float]]
) -> BySeed:
    """The numbers of `of` for each seed: of its run's folder, or what was measured."""
    rows = [of(one) for one in each]
    return {name: np.array([row[name] for row in rows], float) for name in rows[0]}


def of_each(runs: Runs, of: _Measure) -> BySeed:
    """The same for all labels of runs, as `label: name`."""
    return {
        f"{label}: {name}": values
        for label, folders in runs.folders.items()
        for name, values in by_seed(folders, of).items()
    }


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


def curves_by_set(
    runs: Runs, sets: Iterable[str], metric: str = "loss"
) -> dict[str, MetricCurves]:
    """`curves` on each of the sets on which all runs were evaluated."""
    every = [Run(folder).log for each in runs.folders.values() for folder in each]
    there = [name for name in sets if all(name in log.evaluations for log in every)]
    return {name: curves(runs, name, metric) for name in there}


def crossings(found: MetricCurves, level: float) -> BySeed:
    """The sequences seen when each run first falls to a level, by label.

    Curves are linear between the points; `inf` for a run that never falls to it.
    """
    return {
        label: np.array([crossing(found.sequences, y, level) for y in values.T])
        for label, values in found.by_label.items()
    }


def draw_curves(
    found: MetricCurves | Mapping[str, MetricCurves],
    label: str = "loss (nats)",
    **looks: Any,
) -> plots.DrawnFigure:
    """Draws each run's curve, thin, and the median of each label.

    Some seeds may fail. A mean over them and the others would be like neither.

    **Arguments:**

    - `found`: The curves, or those of each panel by its title.
    - `looks`: More arguments of `icl.plots.traces`.
    """
    panels = {"": found} if isinstance(found, MetricCurves) else found
    first = next(iter(panels.values()))
    values = {title: each.values for title, each in panels.items()}
    usual = {"groups": np.array(first.labels), "trace": "seed", "middle": "median"}
    return plots.traces(first.sequences, values, label=label, **(usual | looks))


def dotted(
    values: Mapping[str, Float[np.ndarray, " seed"]],
    rows: Mapping[str, Row],
    label: str,
    *,
    known: str = "published",
) -> plots.DrawnFigure:
    """Draws each number's estimate over seeds and its interval, beside its target.

    An event that did not come in half of the seeds or more is drawn as never.

    **Arguments:**

    - `values`: The numbers of all seeds by name, as they are drawn from top to bottom.
    - `rows`: Their targets and units; intervals stay within a unit's bounds.
    - `label`: What the numbers are, with their units.
    - `known`: What the targets are, for the legend.
    """
    ours = {}
    for name, each in values.items():
        found = Estimate.of(each, rows[name].unit.bounds)
        ours[name] = (found.value, found.low, found.high)
    targets = {name: rows[name].target for name in values}
    groups = {"ours": ours}
    if not all(map(math.isnan, targets.values())):
        groups = {known: targets, **groups}
    return plots.intervals(groups, label=label)
