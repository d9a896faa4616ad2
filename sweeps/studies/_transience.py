"""Learning in context that comes and goes: what both papers on transience show."""

import math

import numpy as np

from icl import plots

from ..analysis import MetricCurves, passage
from ..figures import Claim, curves, has_set, Measured, Runs, Together, Within


_SETS = ("flip", "icl", "ciwl", "train")
_METRIC = "in_context_accuracy"
TIMES = ("flip first above 0.5", "flip at its peak", "flip last above 0.5")
HEIGHTS = ("flip peak", "flip end", "icl peak", "ciwl end")


def comes_and_goes(runs: Runs) -> Measured:
    """Accuracies by what they take: context, weights, or either."""
    sets = [name for name in _SETS if has_set(runs, name)]
    every = {name: curves(runs, name, _METRIC) for name in sets}
    flip = every["flip"]
    values = {
        "flip peak": _trained(flip).max(0),
        "flip end": flip.values[-1],
        "ciwl end": every["ciwl"].values[-1],
    }
    if "icl" in every:
        values["icl peak"] = _trained(every["icl"]).max(0)
    passages = [passage(flip.sequences, values) for values in flip.values.T]
    # Where it never came, its largest value is noise, and it cannot go.
    times = [
        (p.came_at, math.nan if math.isinf(p.came_at) else p.peak_at, p.gone_at)
        for p in passages
    ]
    values |= dict(zip(TIMES, np.array(times).T, strict=True))
    return Measured(values, _accuracies(every))


def _trained(found: MetricCurves) -> np.ndarray:
    """Without the first look, before training, which is chance."""
    return found.values[found.sequences > 0]


def _accuracies(every: dict[str, MetricCurves]) -> plots.DrawnFigure:
    first = next(iter(every.values()))
    names = [name for name, found in every.items() for _ in found.labels]
    return plots.traces(
        first.sequences,
        np.concatenate([found.values for found in every.values()], 1),
        groups=np.array(names),
        label="accuracy among labels in context",
        by="evaluation set",
        trace="seed",
        limits=(0, 1.02),
        threshold=0.5,
    )


def transient(seeds: int) -> tuple[Claim, ...]:
    """That it comes and goes, in so many seeds, and that what is in weights stays."""
    # A low end says nothing of a seed where it never rose.
    comes, goes = Within("flip peak", low=0.6), Within("flip end", high=0.2)
    return Together((comes, goes), seeds=seeds), Within("ciwl end", low=0.9)
