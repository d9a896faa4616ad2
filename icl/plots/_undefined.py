"""Cells of maps without a finite number; left blank, they would look like zeros."""

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from numpy.typing import ArrayLike


_LOOK = {"facecolor": "0.92", "edgecolor": "0.55", "hatch": "////", "lw": 0}


def hatch_undefined(ax: Axes, values: np.ndarray) -> None:
    """Hatches the cells of a map without a finite number."""
    for row, column in np.argwhere(~np.isfinite(values)):
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **_LOOK))


def explain_undefined(fig: Figure, values: Iterable[ArrayLike]) -> None:
    """Explains hatched cells in a legend below the maps, if there are any."""
    if any(not np.isfinite(np.asarray(x)).all() for x in values):
        patch = Patch(label="undefined", **_LOOK)
        fig.legend(handles=[patch], loc="outside lower left", fontsize=8)


def largest_size(values: Iterable[ArrayLike], least: float) -> float | None:
    """The largest absolute value, at least `least`; `None` if no number is finite."""
    sizes = [np.abs(x[np.isfinite(x)]) for x in map(np.asarray, values)]
    found = np.concatenate([size.ravel() for size in sizes])
    return max(float(found.max()), least) if found.size else None
