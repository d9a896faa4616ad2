"""Scatter plots of one number against another, with a dot for each head or run."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from ._drawn import DrawnFigure, Quantity
from ._style import figure, line_style, style


Dots = tuple[np.ndarray, np.ndarray]
"""The horizontal and the vertical numbers, each `[dot]`."""


def dots(
    panels: Mapping[str, Mapping[str, Dots]],
    *,
    x: str,
    y: str | Sequence[str],
    names: Mapping[str, Sequence[str]] | None = None,
    by: str = "",
    identity: bool = False,
) -> DrawnFigure:
    """Draws scatter plots side by side.

    **Arguments:**

    - `panels`: The dots by title and group; dots that are not finite are left out.
    - `x`, `y`: What the numbers are, with their units; `y` for all panels or for each.
    - `names`: By group, what to write at each of its dots, in every panel.
    - `by`: What the groups are; the title of the legend.
    - `identity`: Whether to draw the line where both numbers are equal.

    **Raises:** `ValueError` if there are several `y`, but not one for each panel.
    """
    labels = [y] * len(panels) if isinstance(y, str) else [*y]
    if len(labels) != len(panels):
        raise ValueError(f"y: wanted one or {len(panels)}, got {len(labels)}")
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
    """Writes a text beside each dot that is finite."""
    for text, a, b in zip(texts, across, up, strict=False):
        if np.isfinite([a, b]).all():
            place = {"xytext": (3.5, 2), "textcoords": "offset points"}
            ax.annotate(text, (a, b), fontsize=7.5, color=colour, **place)
