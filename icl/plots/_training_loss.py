"""The loss of training's batches, with marks where the data change."""

import numpy as np
from numpy.typing import ArrayLike

from ._drawn import DrawnFigure, Quantity
from ._style import unit_of
from ._traces import traces


def training_loss(
    sequences: np.ndarray,
    loss: np.ndarray,
    changes: ArrayLike = (),
    *,
    label: str,
    groups: ArrayLike | None = None,
    by: str = "",
) -> DrawnFigure:
    """Draws the loss of batches over training, with ticks where a curriculum changes.

    **Arguments:**

    - `sequences`, `loss`: Sequences seen before each step, `[step]`, and its loss,
        `[step]`, or `[step, seed]` for several runs.
    - `changes`: The sequences seen at which the training data change.
    - `label`: What the loss is, with its unit.
    - `groups`, `by`: The group of each run, `[seed]`, and what the groups are.
    """
    runs = np.asarray(loss)
    runs = runs[:, None] if runs.ndim == 1 else runs
    look = {"label": label, "limits": (0, None), "trace": "seed"}
    fig = traces(sequences, runs, groups=groups, by=by, **look)
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
