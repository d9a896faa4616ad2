"""Maps of numbers on one colour scale; cells without a number are hatched."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import NullFormatter
from numpy.typing import ArrayLike

from ._drawn import DrawnFigure, Quantity
from ._style import figure, style


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
