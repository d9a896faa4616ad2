"""A map of positive numbers that differ by orders of magnitude."""

from collections.abc import Sequence

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.ticker import NullFormatter

from ._drawn import DrawnFigure, Quantity
from ._style import figure, style
from ._undefined import explain_undefined, hatch_undefined


def log_map(
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    label: str,
    of: tuple[str, str] = ("", ""),
    limits: tuple[float, float] = (1e-3, 1.0),
) -> DrawnFigure:
    """Draws a map with a logarithmic colour scale, and the number in each cell.

    **Arguments:**

    - `values`: `[row, column]`, above 0; NaN is hatched.
    - `rows`, `columns`: Their names.
    - `label`: What the numbers are, with their unit.
    - `of`: What the rows and the columns are.
    - `limits`: The ends of the colours. Numbers beyond have the colour of the end.

    **Raises:** `ValueError` unless there is one name for each row and each column.
    """
    values = np.asarray(values, float)
    if values.shape != (len(rows), len(columns)):
        wanted = f"values must be {[len(rows), len(columns)]} as the names are"
        raise ValueError(f"{wanted}, got {[*values.shape]}")
    named = {
        of[0] or "row": np.array([*rows]),
        of[1] or "column": np.array([*columns]),
    }
    norm = LogNorm(*limits, clip=True)
    scale, dark = ScalarMappable(norm, "Blues"), float(norm.inverse(0.6))
    with style():
        size = 2.9 + 0.42 * len(columns), 1.5 + 0.25 * len(rows)
        fig = figure(*size, {label: Quantity(values, named, label)})
        ax = fig.subplots()
        there = np.isfinite(values)
        # Below the scale, 0 too has the colour of its lower end.
        coloured = np.where(there, np.maximum(values, limits[0]), np.nan)
        ax.imshow(coloured, norm=norm, cmap="Blues", aspect="auto")
        hatch_undefined(ax, values)
        for row, column in np.argwhere(there):
            value = float(values[row, column])
            colour = "white" if value > dark else "black"
            look = {"ha": "center", "va": "center", "fontsize": 7, "color": colour}
            ax.text(column, row, _short(value, limits[0]), **look)
        ax.set_xticks(range(len(columns)), columns, rotation=45, ha="right")
        for tick in ax.get_xticklabels():
            tick.set_rotation_mode("anchor")
        ax.set_yticks(range(len(rows)), rows)
        ax.set_xlabel(of[1])
        ax.set_ylabel(of[0])
        ax.spines[:].set_visible(False)
        bar = fig.colorbar(scale, ax=ax, label=label, extend="both")
        bar.ax.yaxis.set_major_formatter("{x:g}")  # Avoids mathtext.
        bar.ax.yaxis.set_minor_formatter(NullFormatter())
        explain_undefined(fig, [values])
    return fig


def _short(value: float, least: float) -> str:
    """Two digits, without the zero before the point."""
    if value < least:
        return "0"
    text = f"{value:.0f}" if value >= 10 else f"{value:.2g}"
    return text.removeprefix("0") if value < 1 else text
