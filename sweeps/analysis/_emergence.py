"""Where a curve reaches a level and leaves it, and such numbers over seeds."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Num

from icl.experiments.events import first_below, HALF_LN_2
from icl.plots import Confidence


HALF = float(HALF_LN_2)
"""Half of ln 2, which is half of the plateau's loss. Figures 5b and 6 of the
induction-head paper read emergence off at this level."""


@dataclass(frozen=True)
class Estimate:
    """A number measured on several seeds, with its interval.

    **Fields:**

    - `value`: The mean over seeds. If some seeds never reached it, the median over all
        of them, as the mean of the others would be too low; it is infinite if half of
        the seeds or more never did. NaN if there are no seeds.
    - `low`, `high`: A 95 % confidence interval of the mean (Student's t; for a number
        with two bounds, of its angle). NaN for fewer than two seeds, or if some seed
        never reached it.
    - `known`, `count`: The number of seeds that reached it, and the number of seeds.
    """

    value: float
    low: float
    high: float
    known: int
    count: int

    @staticmethod
    def of(
        values: Iterable[float], bounds: tuple[float, float] = (-math.inf, math.inf)
    ) -> "Estimate":
        """Makes an estimate from one value for each seed; infinite means never reached.

        Seeds with NaN (unknown) are ignored.

        **Arguments:**

        - `bounds`: The smallest and the largest possible value, such as 0 and 1 for an
            accuracy; the interval stays within them. With two finite bounds it is
            computed for the angle arcsin √p, whose variance is about the same
            everywhere (Bartlett 1936); log odds would be infinite at the bounds. With
            one, such as 0 for a loss, the interval is cut off there.

        **Raises:** `ValueError` for a value outside the bounds.
        """
        array = np.asarray([*values], float)
        array = array[~np.isnan(array)]
        there = array[np.isfinite(array)]
        known, count = there.size, len(array)
        if known < count or not count:
            # For an even count, the larger of the middle two: their mean can be inf.
            median = float(np.sort(array)[count // 2]) if count else math.nan
            return Estimate(median, math.nan, math.nan, known, count)
        _check_within(there, *bounds)
        if np.isfinite(bounds).all():
            low, high = _of_angle(there, *bounds)
        else:
            low, high = (float(x) for x in np.clip(_interval(there), *bounds))
        return Estimate(float(there.mean()), low, high, known, count)

    def __str__(self) -> str:
        if not self.known:
            return "–" if not self.count else "not reached"
        seeds = f"{self.known} of {self.count} seeds"
        if math.isinf(self.value):
            return f"reached in {seeds}"
        if self.known < self.count:
            return f"median {_short(self.value)}, reached in {seeds}"
        interval = f" [{_short(self.low)}, {_short(self.high)}]"
        return _short(self.value) + (interval if math.isfinite(self.low) else "")


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _interval(values: Float[np.ndarray, " seed"]) -> tuple[float, float]:
    low, high = Confidence().bounds(values[None])
    return float(low[0]), float(high[0])


def _check_within(
    values: Float[np.ndarray, " seed"], least: float, most: float
) -> None:
    # A mean of float32 may be slightly above 1.
    if np.any((values < least - 1e-6) | (values > most + 1e-6)):
        raise ValueError(f"values must lie in [{least}, {most}], got {values}")


def _of_angle(
    values: Float[np.ndarray, " seed"], least: float, most: float
) -> tuple[float, float]:
    """The interval of the angle arcsin √p, transformed back."""
    parts = np.clip((values - least) / (most - least), 0, 1)
    ends = _interval(np.arcsin(np.sqrt(parts)))
    low, high = np.sin(np.clip(ends, 0, np.pi / 2)) ** 2 * (most - least) + least
    return float(low), float(high)


def crossing(sequences: np.ndarray, losses: np.ndarray, level: float = HALF) -> float:
    """Where a loss, linear between the points, first falls to a level.

    Infinite if it never does, NaN if there are no points. Points where the loss is not
    finite are ignored.
    """
    there = np.isfinite(losses)
    if not there.any():
        return math.nan
    found = first_below(np.asarray(sequences)[there], np.asarray(losses)[there], level)
    return math.inf if found is None else found


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
