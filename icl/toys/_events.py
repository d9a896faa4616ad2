"""When something happens in a loss curve, in NumPy."""

import numpy as np
from jaxtyping import Float


# Steps after which the fast fit at the start, down to the plateau, is over.
_SETTLED = 50


def half_time(losses: Float[np.ndarray, " step"], after: int = _SETTLED) -> int | None:
    """The first step with a loss below half of the one at step `after`; None if none.

    Descent from a random start comes close to the saddle at zero in some tens of
    steps, from where it escapes slowly: a plateau, then the phase change. Where there
    is no plateau, it is how long after `after` the loss has halved.

    **Arguments:**

    - `losses`: At each step; may end in NaN, as after a stop.
    - `after`: A step by which the plateau is reached.

    **Raises:** `ValueError` if there is no such step.
    """
    _check_after(losses, after)
    below = losses[after:] < losses[after] / 2
    return after + int(np.argmax(below)) if below.any() else None


def plateau(losses: Float[np.ndarray, " step"], after: int = _SETTLED) -> float:
    """The loss where it changes slowest between step `after` and `half_time`.

    **Arguments:** as of `half_time`.
    """
    end = half_time(losses, after)
    part = losses[after : None if end is None else end + 1]
    part = part[np.isfinite(part)]
    return float(part[np.argmin(np.abs(np.diff(part, append=np.inf)))])


def rise(losses: Float[np.ndarray, " step"]) -> tuple[int, int]:
    """The two steps between which the loss rises most: the divot of a falling loss.

    **Arguments:**

    - `losses`: At each step; may end in NaN, as after a stop.

    **Returns:**

    The step of the low and that of the high after it; the same one twice if the loss
    never rises.
    """
    kept = losses[np.isfinite(losses)]
    high = int(np.argmax(kept - np.minimum.accumulate(kept)))
    return int(np.argmin(kept[: high + 1])), high


def _check_after(losses: Float[np.ndarray, " step"], after: int) -> None:
    if not 0 <= after < len(losses) or not np.isfinite(losses[after]):
        steps = int(np.isfinite(losses).sum())
        raise ValueError(f"after must be one of the {steps} steps, got {after}")
