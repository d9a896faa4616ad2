"""Maps of numbers for pairs: two heads, or a head and a label."""

from collections.abc import Mapping

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from ._drawn import DrawnFigure, Quantity
from ._style import figure, style
from ._undefined import explain_undefined, hatch_undefined, largest_size


def head_maps(
    panels: Mapping[str, np.ndarray],
    *,
    rows: str,
    columns: str,
    label: str,
    limits: tuple[float, float] | None = None,
) -> DrawnFigure:
    """Draws maps side by side, with their numbers, on one colour scale.

    **Arguments:**

    - `panels`: The values by title, `[row, column]`; NaN is hatched.
    - `rows`, `columns`: What the rows and the columns are.
    - `label`: What the numbers are, with their unit.
    - `limits`: The ends of the colour scale. By default they are plus and minus the
        largest size, in colours that diverge from white. If no number is finite, there
        is no scale.
    """
    some = next(iter(panels.values()))
    largest = largest_size(panels.values(), 1e-6)
    bound = largest or 1.0
    low, high = limits or (-bound, bound)
    colours = "RdBu" if limits is None else "Blues"
    names = {
        rows: np.arange(some.shape[0]),
        columns: np.arange(some.shape[1]),
    }
    scale = ScalarMappable(Normalize(low, high), colours)
    drawn = {name: Quantity(x, names, label) for name, x in panels.items()}
    with style():
        wide, tall = 0.8 + 0.38 * some.shape[1], 0.8 + 0.3 * some.shape[0]
        fig = figure(0.9 + wide * len(panels), tall, drawn)
        axes = fig.subplots(1, len(panels), squeeze=False)[0]
        for ax, (title, values) in zip(axes, panels.items(), strict=True):
            ax.imshow(values, norm=scale.norm, cmap=colours, aspect="auto")
            hatch_undefined(ax, values)
            for (row, column), value in np.ndenumerate(values):
                if np.isfinite(value):
                    edge = abs(value - (low + high) / 2) if limits is None else value
                    dark = edge > 0.6 * high
                    colour = "white" if dark else "black"
                    look = {"color": colour, "ha": "center", "va": "center"}
                    ax.text(column, row, f"{value:.2f}", fontsize=7, **look)
            ax.set_xticks(range(some.shape[1]), names[columns])
            ax.set_yticks(range(some.shape[0]), names[rows])
            ax.set_xlabel(columns)
            ax.set_title(title)
            ax.spines[:].set_visible(False)
        axes[0].set_ylabel(rows)
        if largest is not None:
            fig.colorbar(scale, ax=axes, label=label, fraction=0.05)
        explain_undefined(fig, panels.values())
    return fig
