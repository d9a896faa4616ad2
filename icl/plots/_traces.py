"""Traces over training, in groups: the general figure of curves, and its kinds."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from ._drawn import DrawnFigure, Quantity
from ._interval import Interval
from ._panels import as_panels, draw, Limits, Look, Middle, named_level, Panel
from ._style import unit_of


def traces(
    sequences: np.ndarray,
    values: np.ndarray | Mapping[str, np.ndarray],
    *,
    groups: ArrayLike | None = None,
    label: str = "",
    by: str = "",
    trace: str = "sequence",
    band: Interval | None = None,
    limits: Limits | None = None,
    threshold: float | None = None,
    phase_change: float | None = None,
    columns: int = 4,
    middle: Middle = "mean",
    seen: str = "sequences seen",
) -> DrawnFigure:
    """Draws values over training: thin traces, and the mean of each group on top.

    A trace is one of several curves, such as one sequence of a set, one head of a layer
    or one seed of a run. NaN and infinite values are left out.

    **Arguments:**

    - `sequences`: Sequences seen, `[checkpoint]`.
    - `values`: `[checkpoint, trace]`, or several such arrays by the name of a panel.
    - `groups`: The group of each trace, `[trace]`. With labels, each label has a colour
        (and dashes) and a mean. With real numbers, there is a colour map and one mean.
        Integers are labels, unless there are too many to tell apart.
    - `label`: What the values are, with their unit.
    - `by`: What the groups are, such as `"class pair"`.
    - `trace`: What one trace is, such as `"sequence"`, in the singular.
    - `band`: What to draw around each mean, such as `Confidence(0.95)` over seeds.
    - `limits`: The limits of the vertical axis.
    - `threshold`: Where to draw a horizontal line.
    - `phase_change`: Where to draw a vertical line, in sequences seen.
    - `columns`: The number of panels side by side.
    - `middle`: What is drawn on top; the median, if some traces are unlike the others.
    - `seen`: What `sequences` counts; a `Replay` has it as `seen`.

    **Returns:**

    A figure whose `drawn` has `traces`, `group` and `mean` (or `median`), and with a
    band also `low` and `high`. At most 2000 traces are drawn, chosen evenly from each
    group; means and bands use all traces.

    **Raises:** `ValueError` for arrays that do not fit together, or more labels than
    can be told apart.
    """
    chosen = None if groups is None else np.asarray(groups)
    level = None if threshold is None else named_level(threshold)
    panels = [
        Panel(array, chosen, name, name, label, limits, level)
        for name, array in as_panels(values).items()
    ]
    look = Look(columns, by, trace, band, phase_change, middle, seen)
    return draw(sequences, panels, look)


def learning_curves(
    sequences: np.ndarray,
    losses: Mapping[str, np.ndarray],
    accuracies: Mapping[str, np.ndarray] | None = None,
    *,
    loss_label: str = "loss (nats)",
    accuracy_label: str = "accuracy among labels in context",
    threshold_unit: str = "nats",
    trace: str = "seed",
    band: Interval | None = None,
    phase_change: float | None = None,
    threshold: float | None = None,
) -> DrawnFigure:
    """Draws loss and accuracy over training, with one line for each evaluation set.

    **Arguments:**

    - `sequences`: Sequences seen, `[event]`.
    - `losses`, `accuracies`: The values of each set, `[event]`, or `[event, trace]` for
        several seeds, with their mean drawn on top. Accuracies are in [0, 1].
    - `loss_label`, `accuracy_label`: What they are, with their units.
    - `threshold_unit`: The unit of the threshold.
    - `trace`: What one trace is, in the singular.
    - `band`: What to draw around each mean, such as `Confidence(0.95)` over seeds.
    - `phase_change`: Where to draw a vertical line, in sequences seen.
    - `threshold`: Where to draw a horizontal line on the loss.
    """
    level = None if threshold is None else named_level(threshold, threshold_unit)
    limits = _loss_limits(*losses.values())
    panels = [_panel(losses, "loss", loss_label, limits, level)]
    if accuracies:
        panels.append(_panel(accuracies, "accuracy", accuracy_label, (0, 1.02), None))
    look = Look(by="evaluation set", trace=trace, band=band, phase_change=phase_change)
    return draw(sequences, panels, look)


def _panel(
    by_set: Mapping[str, np.ndarray],
    name: str,
    label: str,
    limits: Limits | None,
    threshold: tuple[float, str] | None,
) -> Panel:
    columns = {key: _columns(values) for key, values in by_set.items()}
    groups = [[key.replace("_", " ")] * x.shape[1] for key, x in columns.items()]
    values = np.concatenate([*columns.values()], 1)
    look = {"label": label, "limits": limits, "threshold": threshold}
    return Panel(values, np.concatenate(groups), name, **look)


def _loss_limits(*losses: ArrayLike) -> Limits | None:
    """The limits of an axis of losses: from 0, unless that would flatten the curves."""
    every = np.concatenate([np.ravel(each) for each in losses] or [[]])
    found = every[np.isfinite(every)]
    flat = len(found) and found.min() > 0.2 * found.max()
    return None if flat else (0, None)


def _columns(values: ArrayLike) -> np.ndarray:
    """One trace or several, `[event, trace]`."""
    array = np.asarray(values)
    return array[:, None] if array.ndim == 1 else array


def training_loss(
    sequences: np.ndarray,
    loss: np.ndarray,
    changes: ArrayLike = (),
    *,
    label: str,
) -> DrawnFigure:
    """Draws the loss of batches over training, with ticks where a curriculum changes.

    **Arguments:**

    - `sequences`, `loss`: Sequences seen before each step, `[step]`, and its loss,
        `[step]`, or `[step, seed]` for several runs.
    - `changes`: The sequences seen at which the training data change.
    - `label`: What the loss is, with its unit.
    """
    look = {"label": label, "limits": _loss_limits(loss), "trace": "seed"}
    fig = traces(sequences, _columns(loss), **look)
    ax = fig.axes[0]
    marks = np.asarray(changes, float)
    unit, _ = unit_of(float(np.max(sequences, initial=0)))
    for mark in marks:
        ax.axvline(mark / unit, color="0.6", ls="--", lw=0.5, zorder=0)
    if len(marks):
        ax.set_title("dashed lines: the training data change", fontsize=8)
        axes = {"change": np.arange(len(marks))}
        found = Quantity(marks, axes, "sequences seen")
        fig.drawn = {**fig.drawn, "changes": found}
    return fig
