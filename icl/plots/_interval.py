"""Intervals around the mean of several traces, which bands show."""

import abc
import dataclasses

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import special


def finite(values: Float[np.ndarray, "checkpoint trace"]) -> pd.DataFrame:
    """A column for each checkpoint; pandas leaves out what is not finite."""
    known = np.where(np.isfinite(values), values, np.nan)
    return pd.DataFrame(known.astype(float).T)


class Interval(abc.ABC):
    """An interval, drawn as a band around the mean of a group of traces."""

    @abc.abstractmethod
    def bounds(
        self, values: Float[np.ndarray, "checkpoint trace"]
    ) -> tuple[Float[np.ndarray, " checkpoint"], Float[np.ndarray, " checkpoint"]]:
        """The lower and the upper edge; NaN where there are too few traces."""

    @abc.abstractmethod
    def text(self, trace: str) -> str:
        """Its text in a legend; `trace` is what one trace is, such as `seed`."""


@dataclasses.dataclass(frozen=True)
class Confidence(Interval):
    r"""Student's confidence interval of the population mean: $\bar x \pm t\,s/\sqrt n$.

    For traces that are independent draws, such as seeds.
    """

    level: float = 0.95
    """How often such an interval contains the population mean, in (0, 1)."""

    def __post_init__(self):
        if not 0 < self.level < 1:
            raise ValueError(f"level must be in (0, 1), got {self.level}")

    def bounds(self, values):
        frame = finite(values)
        t = special.stdtrit(frame.count() - 1, 0.5 + self.level / 2)
        half = t * frame.sem()
        return (frame.mean() - half).to_numpy(), (frame.mean() + half).to_numpy()

    def text(self, trace):
        return f"{100 * self.level:g}% confidence\nof the mean over\n{trace}s"


@dataclasses.dataclass(frozen=True)
class Quantiles(Interval):
    """The range between two quantiles of the traces."""

    low: float = 0.25
    high: float = 0.75

    def __post_init__(self):
        if not 0 <= self.low < self.high <= 1:
            got = f"{self.low} and {self.high}"
            raise ValueError(f"low must be below high, both in [0, 1], got {got}")

    def bounds(self, values):
        found = finite(values).quantile([self.low, self.high])
        return found.to_numpy()[0], found.to_numpy()[1]

    def text(self, trace):
        if (self.low, self.high) == (0, 1):
            return f"smallest to largest\nof the {trace}s"
        return f"{100 * self.low:g}–{100 * self.high:g}%\nof the {trace}s"
