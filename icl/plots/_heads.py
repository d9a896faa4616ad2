"""A number for each head over training."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from ._style import figure, sequences_axis, style


def head_strengths(
    sequences: np.ndarray,
    strengths: Mapping[str, np.ndarray],
    *,
    phase_change: float | None = None,
) -> Figure:
    """The strength of each head at each checkpoint, one panel for each layer's heads.

    **Arguments:**

    - `sequences`: Sequences seen, `[checkpoint]`.
    - `strengths`: `[checkpoint, head]` by the label of the panel's vertical axis.
    - `phase_change`: Where to draw a vertical line, in sequences seen.
    """
    with style():
        fig = figure(4.3 * len(strengths), 3.0)
        axes = np.atleast_1d(fig.subplots(1, len(strengths)))
        for ax, (label, values) in zip(axes, strengths.items(), strict=True):
            for head, trace in enumerate(values.T):
                ax.plot(sequences / 1e3, trace, label=f"head {head}")
            if phase_change is not None:
                ax.axvline(phase_change / 1e3, color="0.6", lw=0.8, ls="--")
            ax.set_ylabel(label)
            sequences_axis(ax)
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside right center")
    return fig
