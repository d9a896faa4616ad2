"""A number for each head against what was clamped."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from ._drawn import DrawnFigure, Quantity
from ._style import figure, line_style, style


def head_lines(
    x: Float[np.ndarray, " point"],
    values: Mapping[str, Float[np.ndarray, "point head"]],
    *,
    of: str,
    label: str,
    limits: tuple[float, float] = (0, 1.02),
    threshold: float | None = None,
) -> DrawnFigure:
    """Draws a line for each head, with a panel for each title.

    **Arguments:**

    - `x`: The horizontal coordinates of the lines; `of` names them.
    - `values`: The values of each head, by the title of the panel; `label` names them.
    - `limits`: The limits of the vertical axis.
    - `threshold`: Where to draw a horizontal line, such as chance.
    """
    with style():
        fig = figure(3.0 * len(values) + 0.6, 2.6)
        axes = fig.subplots(1, len(values), sharey=True, squeeze=False)[0]
        for ax, (title, heads) in zip(axes, values.items(), strict=True):
            for head, line in enumerate(heads.T):
                ax.plot(x, line, label=f"{head}", **line_style(head))
            if threshold is not None:
                ax.axhline(threshold, color="0.6", lw=0.8, ls=":")
            ax.set_xlabel(of)
            ax.set_title(title)
        axes[0].set(ylabel=label, ylim=limits)
        lines, names = axes[0].get_legend_handles_labels()
        fig.legend(lines, names, loc="outside right upper", title="head")
    where = {" ".join(of.split()): np.asarray(x)}
    fig.drawn = {
        title: Quantity(
            heads, {**where, "head": np.arange(heads.shape[1])}, " ".join(label.split())
        )
        for title, heads in values.items()
    }
    return fig
