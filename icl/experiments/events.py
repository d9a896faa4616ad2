"""When something emerges in training, from its curve."""

import numpy as np


HALF_LN_2 = 0.5 * np.log(2)
"""In nats: half of the plateau of the induction-head paper's main run. On the plateau,
the context's two labels are equally likely. The paper's figures read emergence off at
this level."""


def first_below(x: np.ndarray, y: np.ndarray, level: float) -> float | None:
    """Where `y`, linear between the points `x`, first falls to `level`."""
    below = np.flatnonzero(y <= level)
    if not below.size:
        return None
    k = below[0]
    if k == 0:
        return float(x[0])
    return float(np.interp(level, [y[k], y[k - 1]], [x[k], x[k - 1]]))


def since(sequences: np.ndarray, strengths: np.ndarray) -> list[float]:
    """When each head is half way between its weakest and its final strength.

    **Arguments:** `sequences`, `[checkpoint]`; `strengths`, `[checkpoint, head]`.
    """
    since = []
    for trace in strengths.T:
        weakest = int(np.argmin(trace))
        half = 0.5 * float(trace[weakest] + trace[-1])
        rise = first_below(sequences[weakest:], -trace[weakest:], -half)
        since.append(float(sequences[-1]) if rise is None else rise)
    return since
