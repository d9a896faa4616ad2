"""Loss and accuracy against sequences seen."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from ._style import figure, sequences_axis, style


def learning_curves(
    sequences: np.ndarray,
    losses: Mapping[str, np.ndarray],
    accuracies: Mapping[str, np.ndarray],
    *,
    phase_change: float | None = None,
    threshold: float | None = None,
) -> Figure:
    """Loss and in-context accuracy over training, one line for each evaluation set.

    **Arguments:**

    - `sequences`: Sequences seen, `[event]`.
    - `losses`, `accuracies`: Means over each set, `[event]`; nats, and in [0, 1].
    - `phase_change`: Where to draw a vertical line, in sequences seen.
    - `threshold`: Where to draw a horizontal line on the loss, in nats.
    """
    with style():
        fig = figure(8.6, 3.0)
        left, right = fig.subplots(1, 2, sharex=True)
        for name, values in losses.items():
            left.plot(sequences / 1e3, values, label=name.replace("_", " "))
        for values in accuracies.values():
            right.plot(sequences / 1e3, values)
        if threshold is not None:
            left.axhline(
                threshold, color="0.6", lw=0.8, ls=":", label=f"{threshold:.3f} nats"
            )
        if phase_change is not None:
            for ax in (left, right):
                ax.axvline(phase_change / 1e3, color="0.6", lw=0.8, ls="--")
            left.plot([], [], color="0.6", lw=0.8, ls="--", label="phase change")
        left.set_ylabel("loss (nats)")
        left.set_ylim(bottom=0)
        right.set_ylabel("accuracy among labels in context")
        right.set_ylim(0, 1.02)
        for ax in (left, right):
            sequences_axis(ax)
        fig.legend(loc="outside right center")
    return fig
