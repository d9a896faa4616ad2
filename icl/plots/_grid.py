"""Heat maps on a shared colour scale, with numbers in their cells."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from ._undefined import hatch_undefined


# Larger maps have smaller cells without numbers, and fewer ticks.
_MOST = 16


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
    """Draws values between `-bound` and `bound`; NaN is hatched.

    **Arguments:**

    - `values`: `[row, column]`.
    - `rows`, `columns`: Names of the ticks.
    - `colours`: A diverging colour map.
    - `signed`: Whether positive numbers have a plus sign, as changes do.
    """
    image = ax.imshow(values, cmap=colours, vmin=-bound, vmax=bound, aspect="auto")
    hatch_undefined(ax, values)
    if max(len(rows), len(columns)) <= _MOST:
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                colour = "white" if abs(value) > 0.6 * bound else "black"
                text = number(float(value), signed=signed)
                ax.text(column, row, text, color=colour, **_TEXT)
    ax.set_xticks(*_thinned(columns))
    if max(map(len, columns)) > 3:
        for label in ax.get_xticklabels():
            label.set(rotation=45, ha="right", rotation_mode="anchor")
    ax.set_yticks(*_thinned(rows))
    ax.spines[:].set_visible(False)
    return image


def inches(rows: int, columns: int) -> tuple[float, float]:
    """The width and height of a map with this many rows and columns."""
    return 0.42 * min(max(columns, 4), _MOST), 0.36 * min(max(rows, 3), _MOST)


def _thinned(names: Sequence[str]) -> tuple[list[int], list[str]]:
    places = range(0, len(names), -(-len(names) // _MOST))
    shown = [i for i in places if names[i]]
    return shown, [names[i] for i in shown]


_TEXT = {"ha": "center", "va": "center", "fontsize": 7.5}


def number(value: float, *, signed: bool) -> str:
    """Two decimals, without the zero before the point; `0` if both are zero."""
    if abs(value) < 0.005:
        return "0"
    text = f"{value:+.2f}" if signed else f"{value:.2f}"
    text = text.replace("0.", ".", 1) if abs(value) < 0.995 else text
    return text.replace("-", "−")
