"""Heat maps that share a colour scale, with their numbers."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage


# Wider maps have no room for numbers.
_MOST_COLUMNS = 16


def heat_map(
    ax: Axes,
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    bound: float,
    colours: str,
    signed: bool = False,
) -> AxesImage:
    """Draws values between `-bound` and `bound`; NaN stays empty.

    **Arguments:**

    - `values`: `[row, column]`.
    - `rows`, `columns`: Names of the ticks.
    - `colours`: A diverging colour map.
    - `signed`: Whether numbers have a plus sign, as changes do.
    """
    image = ax.imshow(values, cmap=colours, vmin=-bound, vmax=bound, aspect="auto")
    if len(columns) <= _MOST_COLUMNS:
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                colour = "white" if abs(value) > 0.6 * bound else "black"
                text = number(value, signed=signed)
                ax.text(column, row, text, color=colour, **_TEXT)
    ax.set_xticks(range(len(columns)), columns)
    if max(map(len, columns)) > 3:
        for label in ax.get_xticklabels():
            label.set(rotation=45, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(rows)), rows)
    ax.spines[:].set_visible(False)
    return image


_TEXT = {"ha": "center", "va": "center", "fontsize": 7.5}


def number(value: float, *, signed: bool) -> str:
    """Two decimals, `0` for what would be all zeros, no zero ahead of the point."""
    if abs(value) < 0.005:
        return "0"
    text = f"{value:+.2f}" if signed else f"{value:.2f}"
    return text.replace("0.", ".", 1) if abs(value) < 0.995 else text
