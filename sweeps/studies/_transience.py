"""In-context learning that comes and goes: what both papers on transience show.

The set `flip` tells whether a model *prefers* the context if its weights contradict it.
The set `icl` tells whether it *can* use the context if its weights are of no help.
"""

import math

import numpy as np

from icl import plots

from ..analysis import MetricCurves, passage
from ..figures import (
    ACCURACY,
    Claim,
    curves_by_set,
    Measured,
    Row,
    rows_of,
    Runs,
    SEQUENCES,
    Together,
    Within,
)


_SETS = ("flip", "icl", "ciwl", "train")
_METRIC = "in_context_accuracy"
TIMES = ("flip first above 0.5", "flip at its peak", "flip last above 0.5")
HEIGHTS = ("flip peak", "flip end", "icl peak", "icl end", "ciwl end")


def comes_and_goes(runs: Runs) -> Measured:
    """Accuracies on each set over training, and when `flip` comes and goes."""
    every = curves_by_set(runs, _SETS, _METRIC)
    flip = every["flip"]
    values = {
        "flip peak": _trained(flip).max(0),
        "flip end": flip.values[-1],
        "ciwl end": every["ciwl"].values[-1],
    }
    if "icl" in every:
        values["icl peak"] = _trained(every["icl"]).max(0)
        values["icl end"] = every["icl"].values[-1]
    passages = [passage(flip.sequences, values) for values in flip.values.T]
    # If it never came, its largest value is noise, and it cannot go away.
    times = [
        (p.came_at, math.nan if math.isinf(p.came_at) else p.peak_at, p.gone_at)
        for p in passages
    ]
    values |= dict(zip(TIMES, np.array(times).T, strict=True))
    return Measured(values, _accuracies(every))


def _trained(found: MetricCurves) -> np.ndarray:
    """The values without those from before training, which are at chance."""
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
        middle="median",
        limits=(0, 1.02),
        threshold=0.5,
    )


def rows(
    heights: tuple[float, ...], times: tuple[float, ...] = (math.nan,) * len(TIMES)
) -> dict[str, Row]:
    """The rows of the published heights, and of the published times in sequences."""
    return {
        **rows_of(ACCURACY, dict(zip(HEIGHTS, heights, strict=True))),
        **rows_of(SEQUENCES, dict(zip(TIMES, times, strict=True))),
    }


# Written down before the runs that they are judged on. A low end says nothing if the
# accuracy never rose, so the same seed must satisfy both.
TRANSIENT: tuple[Claim, ...] = (
    # Whether the context is preferred to weights that contradict it.
    Together((Within("flip peak", low=0.6), Within("flip end", high=0.2))),
    # Whether the context can be used at all.
    Together((Within("icl peak", low=0.8), Within("icl end", high=0.65))),
    Within("ciwl end", low=0.95),
)
