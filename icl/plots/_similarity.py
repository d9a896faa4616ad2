"""A metric's mean over training against the similarity of exemplars."""

import numpy as np
from jaxtyping import Float

from ..checks import check_axes, positive
from ._drawn import DrawnFigure, Quantity
from ._interval import Interval, Quantiles
from ._style import figure, line_style, style


# Not a confidence interval: sequences with the same two classes, or from one run, are
# not independent draws.
_MIDDLE = Quantiles()


def integral_by_similarity(
    sequences: np.ndarray,
    values: np.ndarray,
    similarity: np.ndarray,
    *,
    label: str = "loss (nats)",
    of: str = "cosine similarity of the exemplars",
    trace: str = "sequence",
    bins: int = 10,
    interval: Interval = _MIDDLE,
) -> DrawnFigure:
    """Draws a metric's mean over training against how similar the exemplars are.

    Each trace has a dot. The mean of each bin, with an interval, is drawn on top; bins
    hold equally many traces. The mean over training is the integral over sequences
    seen, divided by their range, so it has the unit of the metric.

    **Arguments:**

    - `sequences`: Sequences seen, `[checkpoint]`, two or more.
    - `values`: The metric, `[checkpoint, trace]`. A trace with a value that is not
        finite is left out.
    - `similarity`: The similarity of each trace, `[trace]`.
    - `label`: What the metric is, with its unit.
    - `of`: What the similarity is.
    - `trace`: What one trace is.
    - `bins`: The largest number of bins; equal similarities are in the same bin.
    - `interval`: What to draw around the mean of a bin.

    **Raises:** `ValueError` for arrays that do not fit together.
    """
    sequences, values = np.asarray(sequences, float), np.asarray(values, float)
    similarity = np.asarray(similarity, float)
    check_axes(
        sequences=(sequences, "checkpoint"),
        values=(values, "checkpoint trace"),
        similarity=(similarity, "trace"),
    )
    positive("bins", bins)
    if np.ptp(sequences) <= 0:
        raise ValueError("sequences must be two checkpoints or more")
    integral = np.trapezoid(values, sequences, axis=0) / np.ptp(sequences)
    there = np.flatnonzero(np.isfinite(integral) & np.isfinite(similarity))
    if not there.size:
        raise ValueError(f"values: no {trace} has finite values at all checkpoints")
    x, y = similarity[there], integral[there]
    centres, means, low, high = _binned(x, y, bins, interval)
    text = f"mean over training of\n{label}"
    dots, at = {trace: there}, {"bin": np.arange(len(means))}
    drawn = {
        "similarity": Quantity(x, dots, of),
        "integral": Quantity(y, dots, text),
        "mean similarity": Quantity(centres, at, of),
        "mean": Quantity(means, at, text),
        "low": Quantity(low, at, text),
        "high": Quantity(high, at, text),
    }
    with style():
        fig = figure(5.4, 2.9, drawn)
        ax = fig.subplots()
        blue, black = line_style(1)["color"], line_style(0)["color"]
        alpha = float(np.clip(300 / len(x), 0.05, 0.6))
        dots = {"s": 6, "color": blue, "lw": 0}
        ax.scatter(x, y, **dots, alpha=alpha, rasterized=len(x) > 5000)
        ax.scatter([], [], **dots, label=f"single {trace}s")
        # The mean of few skewed values can lie outside their middle half.
        middle, half = (low + high) / 2, (high - low) / 2
        ax.errorbar(centres, middle, half, fmt="none", color=black, lw=1, capsize=2)
        look = {"color": black, "marker": "o", "ms": 3.5, "lw": 1}
        ax.plot(centres, means, **look, label=f"mean of a bin,\n{interval.text(trace)}")
        ax.set_xlabel(of)
        ax.set_ylabel(text)
        fig.legend(loc="outside right center")
    return fig


def _binned(
    x: np.ndarray, y: np.ndarray, bins: int, interval: Interval
) -> tuple[Float[np.ndarray, " bin"], ...]:
    """For bins with equally many values: the mean of `x`; mean, low and high of `y`."""
    edges = np.unique(np.quantile(x, np.linspace(0, 1, bins + 1)))
    index = np.searchsorted(edges[1:-1], x, side="right")
    rows = []
    for k in np.unique(index):
        inside = y[index == k]
        low, high = interval.bounds(inside[None])
        rows.append((x[index == k].mean(), inside.mean(), low[0], high[0]))
    return tuple(np.array(rows).T)
