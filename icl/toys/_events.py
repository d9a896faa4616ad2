"""When something happens in a loss curve, in NumPy."""

import numpy as np
from jaxtyping import Float


# After this many steps, the fast fit from the start down to the plateau is over.
_SETTLED = 50


def half_time(losses: Float[np.ndarray, " step"], after: int = _SETTLED) -> int | None:
    """The first step with a loss below half of that at step `after`; `None` if none.

    Descent from a random start comes close to the saddle at zero within some tens of
    steps, and then escapes slowly: a plateau, then the phase change. Without a plateau,
    this says how long after step `after` the loss has halved.

    **Arguments:**

    - `losses`: The loss at each step; may end in NaN, as after a stop.
    - `after`: A step at which the plateau is already reached.

    **Raises:** `ValueError` if there is no step `after`.
    """
    if not 0 <= after < len(losses) or not np.isfinite(losses[after]):
        steps = int(np.isfinite(losses).sum())
        raise ValueError(f"after must be one of the {steps} steps, got {after}")
    below = losses[after:] < losses[after] / 2
    return after + int(np.argmax(below)) if below.any() else None


def plateau(losses: Float[np.ndarray, " step"], after: int = _SETTLED) -> float:
    """The loss where it changes most slowly between step `after` and `half_time`.

    **Arguments:** As for `half_time`.
    """
    end = half_time(losses, after)
    part = losses[after : None if end is None else end + 1]
    part = part[np.isfinite(part)]
    return float(part[np.argmin(np.abs(np.diff(part, append=np.inf)))])


def rise(losses: Float[np.ndarray, " step"]) -> tuple[int, int]:
    """The two steps between which the loss rises most: the divot of a falling loss.

    **Arguments:**

    - `losses`: The loss at each step; may end in NaN, as after a stop.

    **Returns:**

    The step of the low point and the step of the high point after it. They are the same
    if the loss never rises.
    """
    kept = losses[np.isfinite(losses)]
    high = int(np.argmax(kept - np.minimum.accumulate(kept)))
    return int(np.argmin(kept[: high + 1])), high
