"""How a curve rises to a level and falls again."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Num


@dataclass(frozen=True)
class Passage:
    """How a curve rises to a level and falls again.

    **Attributes:**

    - `came_at`: Where it first reaches the level; infinite if it never does, NaN if it
        has reached it at the first event after the start of training.
    - `peak`, `peak_at`: The largest value, and the sequences seen there.
    - `gone_at`: Where it falls below the level for good; infinite if it has not by the
        end, NaN if it never reached the level.
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
    """Finds where a curve reaches a level, peaks, and falls below for good; its end.

    The event before training is ignored: an untrained model is at chance, which may
    be the level itself. Between two events the curve is linear.
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
