"""One number against another: a dot for each head or run."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from ._drawn import DrawnFigure, Quantity
from ._style import figure, line_style, style


Dots = tuple[np.ndarray, np.ndarray]
"""Horizontal and vertical numbers, `[dot]` each."""


def dots(
    panels: Mapping[str, Mapping[str, Dots]],
    *,
    x: str,
    y: str | Sequence[str],
    names: Mapping[str, Sequence[str]] | None = None,
    by: str = "",
    identity: bool = False,
) -> DrawnFigure:
    """Scatter plots beside each other.

    **Arguments:**

    - `panels`: By title and group, the dots; what is not finite is left out.
    - `x`, `y`: What the numbers are, with their units; `y` of all panels or of each.
    - `names`: By group, what to write at each of its dots, in every panel.
    - `by`: What the groups are, over the legend.
    - `identity`: Whether to draw the line where both are equal.

    **Raises:** `ValueError` for another number of `y` than of panels.
    """
    labels = [y] * len(panels) if isinstance(y, str) else [*y]
    if len(labels) != len(panels):
        raise ValueError(f"y: want one or {len(panels)}, got {len(labels)}")
    groups = list(dict.fromkeys(name for each in panels.values() for name in each))
    drawn = {}
    with style():
        side = 1.3 if len(groups) > 1 else 0.0
        fig = figure(0.4 + 2.9 * len(panels) + side, 2.7)
        axes = fig.subplots(1, len(panels), squeeze=False)[0]
        for ax, label, title in zip(axes, labels, panels, strict=True):
            for group, (across, up) in panels[title].items():
                colour = line_style(groups.index(group) + (len(groups) > 1))["color"]
                ax.scatter(across, up, s=16, color=colour, lw=0, label=group)
                _write(ax, (names or {}).get(group, ()), across, up, colour)
                where = {"dot": np.arange(len(across))}
                prefix = "/".join(part for part in (title, group) if part)
                drawn[f"{prefix}/x"] = Quantity(np.asarray(across), where, x)
                drawn[f"{prefix}/y"] = Quantity(np.asarray(up), where, label)
            if identity:
                ax.axline((0, 0), slope=1, color="0.6", lw=0.8, ls=":", zorder=0)
            ax.set_title(title)
            ax.set_xlabel(x)
            ax.set_ylabel(label)
        if len(groups) > 1:
            shown = axes[0].get_legend_handles_labels()
            fig.legend(*shown, loc="outside right center", title=by or None)
        fig.drawn = drawn
    return fig


def _write(
    ax: Axes, texts: Sequence[str], across: np.ndarray, up: np.ndarray, colour: str
) -> None:
    """Writes a text beside each dot that is there."""
    for text, a, b in zip(texts, across, up, strict=False):
        if np.isfinite([a, b]).all():
            place = {"xytext": (3.5, 2), "textcoords": "offset points"}
            ax.annotate(text, (a, b), fontsize=7.5, color=colour, **place)
