"""How much of an answer comes back with each part that is patched."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from ._grid import heat_map, inches
from ._style import figure, style


def recovered_maps(
    recovered: Mapping[str, np.ndarray],
    axes: Sequence[str],
    ticks: Sequence[Sequence[str]],
    *,
    label: str,
) -> Figure:
    """Maps of the last two axes of a grid, a row of panels for each set.

    **Arguments:**

    - `recovered`: By set, an array with one, two or three axes; each index of the first
        of three has a column of panels.
    - `axes`: The name of each axis.
    - `ticks`: The name of each index of each axis.
    - `label`: What comes back, for the colour bar.
    """
    panels = ticks[0] if len(axes) == 3 else [""]
    *_, rows, columns = [[""], *ticks] if len(axes) == 1 else ticks
    width, height = inches(len(rows), len(columns))
    longest = max(map(len, columns)) * 0.06
    with style():
        fig = figure(
            1.9 + (width + 0.5) * len(panels),
            0.5 + longest + (height + 0.45) * len(recovered),
        )
        grid = fig.subplots(len(recovered), len(panels), squeeze=False)
        bound = max(1.0, *(float(np.nanmax(np.abs(x))) for x in recovered.values()))
        image = None
        for row, (name, values) in enumerate(recovered.items()):
            values = values.reshape(len(panels), len(rows), len(columns))
            for ax, panel, part in zip(grid[row], panels, values, strict=True):
                image = heat_map(ax, part, rows, columns, bound=bound, colours="RdBu")
                of = f", {axes[0]} {panel}" if len(axes) == 3 else ""
                ax.set_title(f"{name.replace('_', ' ')}{of}", fontsize=9)
                if row == len(recovered) - 1:
                    ax.set_xlabel(axes[-1])
                else:
                    ax.set_xticklabels([])
            if len(axes) > 1:
                grid[row, 0].set_ylabel(axes[-2])
        assert image is not None
        fig.colorbar(image, ax=grid, label=label, fraction=0.05)
    return fig
