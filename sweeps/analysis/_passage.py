"""How a curve comes and goes."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Num


@dataclass(frozen=True)
class Passage:
    """How a curve comes and goes.

    **Attributes:**

    - `came_at`: Where it first comes up to the level; infinite if it never does, NaN if
        it is at it from the first event on.
    - `peak`, `peak_at`: The largest value, and the sequences seen there.
    - `gone_at`: Where it comes below the level for good; infinite if it is at it at the
        end, NaN if it never was.
    - `final`: The last value.
    """

    came_at: float
    peak: float
    peak_at: float
    gone_at: float
    final: float


def passage(
    sequences: Num[np.ndarray, " event"],
    values: Num[np.ndarray, " event"],
    level: float = 0.5,
) -> Passage:
    """When a curve comes up to a level, is highest, and is below for good; its end.

    What was before training does not count: an untrained model is at chance, which may
    well be the level. Between two events the curve is linear.
    """
    known = np.isfinite(values) & (sequences > 0)
    x, y = sequences[known].astype(float), values[known].astype(float)
    if not y.size:
        return Passage(*[math.nan] * 5)
    top = int(y.argmax())
    there = np.flatnonzero(y >= level)
    came, gone = math.inf, math.nan
    if there.size:
        first, last = int(there[0]), int(there[-1])
        came = _between(x, y, first - 1, level) if first else math.nan
        gone = _between(x, y, last, level) if last + 1 < len(y) else math.inf
    return Passage(came, float(y[top]), float(x[top]), gone, float(y[-1]))


def _between(x: np.ndarray, y: np.ndarray, k: int, level: float) -> float:
    """Where the line from point `k` to the next is at the level."""
    return float(x[k] + (level - y[k]) / (y[k + 1] - y[k]) * (x[k + 1] - x[k]))
