"""How the rows of a set become numbers: the only place that combines sequences.

A row is what `Task.metrics` gives for one sequence. A metric's number is the mean over
the set's sequences, unless the `summaries` of the task's config say otherwise. They are
for functions of the whole set, such as AUROC, which are not means over sequences.
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping

import numpy as np
from jaxtyping import Float

from .checks import positive
from .protocols import Bounds, Summary


MetricRows = Mapping[str, np.ndarray]
"""Each metric of a set, `[sequence]` or `[sequence, position]`."""


def summarise(
    rows: MetricRows, summaries: Mapping[str, Summary | None]
) -> dict[str, Float[np.ndarray, "..."]]:
    """The numbers of a set by name: means over its sequences, and the task's summaries.

    **Arguments:**

    - `rows`: Each metric, `[sequence, ...]`.
    - `summaries`: The summaries of the task's config, `TaskConfig.summaries`.

    **Returns:** For each name a number, or one number by position, in float64.
    """
    at_once = {name: np.asarray(values)[None] for name, values in rows.items()}
    found = over_events(at_once, summaries)
    return {name: np.asarray(value[0]) for name, value in found.items()}


def over_events(
    rows: MetricRows, summaries: Mapping[str, Summary | None]
) -> dict[str, Float[np.ndarray, "event ..."]]:
    """`summarise` at each event of a log; rows are `[event, sequence, ...]`."""
    means = {
        name: np.asarray(np.mean(values, axis=1, dtype=np.float64))
        for name, values in rows.items()
        if name not in summaries
    }
    count = min(map(len, rows.values()), default=0)
    at = [
        {name: values[event] for name, values in rows.items()} for event in range(count)
    ]
    own = {
        part: np.array(values, np.float64)
        for name, summary in summaries.items()
        if summary is not None
        for part, values in _parts(name, [summary(one) for one in at])
    }
    return means | own


def _parts(name: str, values: list) -> Iterator[tuple[str, list]]:
    """A summary's values at each event; those of an interval are two lists."""
    if any(isinstance(value, Bounds) for value in values):
        yield f"{name}_low", [value.low for value in values]
        yield f"{name}_high", [value.high for value in values]
    else:
        yield name, values


def scalars(
    summary: Mapping[str, np.ndarray], *, lead: int = 0
) -> dict[str, np.ndarray]:
    """The same summary with one number per name, for tables, loggers and curves.

    A metric by position becomes two numbers: its mean over the positions, and, under
    its name with `_last`, its value at the last position, which has the most context.

    **Arguments:**

    - `summary`: The result of `summarise`, or with `lead=1` of `over_events`.
    - `lead`: The number of axes before the positions; they stay.
    """
    found: dict[str, np.ndarray] = {}
    for name, value in summary.items():
        if value.ndim == lead:
            found[name] = value
        else:
            flat = value.reshape(*value.shape[:lead], -1)
            found[name] = np.asarray(flat.mean(-1))
            found[f"{name}_last"] = np.asarray(flat[..., -1])
    return found


@dataclasses.dataclass(frozen=True)
class CountedMean:
    """The mean of a metric by position, where NaN marks positions that do not count.

    NaN at a position that counts in no sequence, and everywhere if a loss is not
    finite: then NaN may also come from the model.
    """

    metric: str

    def __call__(self, rows: MetricRows, /) -> np.ndarray:
        values, counts = _counted(rows, self.metric)
        number = counts.sum(0)
        total = np.where(counts, values, 0).sum(0)
        return np.where(number > 0, total / np.maximum(number, 1), np.nan)


@dataclasses.dataclass(frozen=True)
class BootstrapInterval:
    """An interval for the mean of `CountedMean`, from resampled sequences.

    The sequences are drawn with replacement, always with the same random numbers; the
    bounds are quantiles of the resampled means (Efron 1979).
    """

    metric: str
    level: float = 0.9
    """The share of resampled means between the bounds. Garg et al. (2022) have .9."""
    resamples: int = 1000

    def __post_init__(self):
        positive("resamples", self.resamples)
        if not 0 < self.level < 1:
            raise ValueError(f"level must be between 0 and 1, got {self.level}")

    def __call__(self, rows: MetricRows, /) -> Bounds:
        values, counts = _counted(rows, self.metric)
        shape = values.shape[1:]
        flat = np.where(counts, values, 0).reshape(len(values), -1)
        weights = _resampled(len(values), self.resamples)
        number = weights @ counts.reshape(len(values), -1).astype(np.float64)
        means = (weights @ flat) / np.where(number > 0, number, np.nan)
        # A resample without any sequence that counts has no mean.
        unknown = np.isnan(means).all(0)
        means[:, unknown] = 0
        tail = (1 - self.level) / 2
        bounds = np.nanquantile(means, [tail, 1 - tail], axis=0)
        low, high = np.where(unknown, np.nan, bounds)
        return Bounds(low.reshape(shape), high.reshape(shape))


@functools.lru_cache(maxsize=8)
def _resampled(count: int, resamples: int) -> np.ndarray:
    """How often each sequence is in each resample, `[resample, sequence]`."""
    rng = np.random.default_rng(0)
    share = np.full(count, 1 / count)
    return rng.multinomial(count, share, size=resamples).astype(np.float64)


def _counted(rows: MetricRows, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """A metric in float64, and where it counts; all count if a loss is not finite."""
    values = np.asarray(rows[metric], np.float64)
    if not np.isfinite(rows["loss"]).all():
        return np.full_like(values, np.nan), np.ones_like(values, bool)
    return values, ~np.isnan(values)


@dataclasses.dataclass(frozen=True)
class AUROC:
    """The area under the ROC curve: how often a positive scores above a negative.

    Equal scores count half. NaN if the set has only positives or only negatives.
    """

    score: str
    """The metric that ranks the sequences, `[sequence]`."""
    positive: str
    """The metric that says which sequences are positive: those above one half."""

    def __call__(self, rows: MetricRows, /) -> float:
        from scipy import stats  # It takes half a second to import.

        ranks = stats.rankdata(rows[self.score])
        positive = np.asarray(rows[self.positive]) > 0.5
        count, others = int(positive.sum()), int((~positive).sum())
        if not count or not others:
            return np.nan
        above = ranks[positive].sum() - count * (count + 1) / 2
        return float(above / (count * others))


@dataclasses.dataclass(frozen=True)
class RankCorrelation:
    """Spearman's correlation of two metrics: Pearson's, of their ranks.

    NaN if one of them does not vary.
    """

    first: str
    second: str

    def __call__(self, rows: MetricRows, /) -> float:
        from scipy import stats  # It takes half a second to import.

        ranks = {k: stats.rankdata(rows[k]) for k in (self.first, self.second)}
        return Correlation(self.first, self.second)(ranks)


@dataclasses.dataclass(frozen=True)
class Correlation:
    """Pearson's correlation of two metrics over the sequences of a set.

    Metrics by position count every position as a value. NaN if one metric does not
    vary.
    """

    first: str
    second: str

    def __call__(self, rows: MetricRows, /) -> float:
        pair = [np.ravel(rows[k]).astype(np.float64) for k in (self.first, self.second)]
        if any(np.ptp(x) == 0 for x in pair):
            return np.nan
        return float(np.corrcoef(pair[0], pair[1])[0, 1])


@dataclasses.dataclass(frozen=True)
class CalibrationError:
    """How far predicted probabilities are from frequencies, in [0, 1].

    The sequences are sorted by the probability of the positive label and divided into
    bins of equal size. The error is the mean over bins of the distance between the mean
    probability and the share of positives (Naeini et al. 2015). Chance alone makes it
    positive: up to .4 divided by the root of a bin's size.
    """

    logit: str
    """The metric whose logistic function is the probability, `[sequence]`."""
    positive: str
    """The metric that says which sequences are positive: those above one half."""
    bins: int = 10
    """At most this number; as many as there are sequences if those are fewer."""

    def __call__(self, rows: MetricRows, /) -> float:
        logit = np.asarray(rows[self.logit], np.float64)
        order = np.argsort(logit, kind="stable")
        excess = np.exp(-np.logaddexp(0, -logit)) - (rows[self.positive] > 0.5)
        pieces = np.array_split(excess[order], min(self.bins, len(order)))
        weights = [len(piece) / len(order) for piece in pieces]
        means = [abs(piece.mean()) for piece in pieces]
        return float(np.dot(weights, means))
