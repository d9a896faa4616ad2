"""How much of the clean answer returns when a part is patched."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from ._maps import (
    colour_bar,
    diverging,
    explain_undefined,
    heat_map,
    inches,
    number,
)
from ._style import figure, style


Ticks = Sequence[Sequence[str]]
"""The name of each index of each axis of a grid."""


def recovered_maps(
    recovered: Mapping[str, np.ndarray],
    axes: Sequence[str],
    ticks: Mapping[str, Ticks],
    *,
    label: str,
) -> Figure:
    """Draws maps of the last two axes of a grid, with a row of panels for each set.

    **Arguments:**

    - `recovered`: By set, an array with one, two or three axes. If there are three,
        each index of the first has a column of panels. Sets may differ in the lengths
        of the axes.
    - `axes`: The name of each axis.
    - `ticks`: By set, the name of each index of each axis.
    - `label`: The label of the colour bar.
    """
    grids = {name: _three(ticks[name]) for name in recovered}
    most = max(len(panels) for panels, _, _ in grids.values())
    sizes = [inches(len(rows), len(columns)) for _, rows, columns in grids.values()]
    widths, heights = zip(*sizes, strict=True)
    longest = max(len(x) for *_, columns in grids.values() for x in columns) * 0.06
    # If the names are the same for all rows, write them once, at the bottom.
    below = {(len(panels), *columns) for panels, _, columns in grids.values()}
    once = len(below) == 1
    named = 1 if once else len(grids)
    height = 0.5 + sum(heights) + 0.45 * len(grids) + longest * named
    with style():
        fig = figure(1.9 + (max(widths) + 0.5) * most, height)
        ratios = {"height_ratios": heights}
        grid = fig.subplots(len(grids), most, squeeze=False, gridspec_kw=ratios)
        scale = diverging(recovered.values(), least=1.0)
        for row, (name, (panels, rows, columns)) in enumerate(grids.items()):
            values = recovered[name].reshape(len(panels), len(rows), len(columns))
            for ax in grid[row, len(panels) :]:
                ax.remove()
            for ax, panel, part in zip(grid[row], panels, values, strict=False):
                heat_map(ax, part, rows, columns, scale, number)
                of = f", {axes[0]} {panel}" if len(axes) == 3 else ""
                ax.set_title(f"{name.replace('_', ' ')}{of}", fontsize=9)
                if once and row < len(grids) - 1:
                    ax.set_xticklabels([])
                else:
                    ax.set_xlabel(axes[-1])
            if len(axes) > 1:
                grid[row, 0].set_ylabel(axes[-2])
        shown = [ax for ax in grid.flat if ax.figure is not None]
        colour_bar(fig, scale, shown, label, recovered.values())
        explain_undefined(fig, recovered.values())
    return fig


def _three(ticks: Ticks) -> Ticks:
    """The names of panels, rows and columns; one empty name for a missing axis."""
    return [*[[""]] * (3 - len(ticks)), *ticks]
