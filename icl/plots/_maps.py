"""Maps of numbers on one colour scale; cells without a number are hatched."""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from numpy.typing import ArrayLike

from ._drawn import DrawnFigure, Quantity
from ._style import figure, style


_LOOK = {"facecolor": "0.92", "edgecolor": "0.55", "hatch": "////", "lw": 0}
# Larger maps have smaller cells without numbers, and fewer ticks.
_MOST = 16


def heat_map(
    ax: Axes,
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    scale: ScalarMappable,
    text: Callable[[float], str],
) -> None:
    """Draws a map with the number in each cell; cells without one are hatched.

    **Arguments:**

    - `values`: `[row, column]`.
    - `rows`, `columns`: Names of the ticks.
    - `scale`: The colours of the numbers. It diverges if it begins below 0.
    - `text`: How a number is written.
    """
    norm: Any = scale.norm
    least = float(norm.vmin)
    # On a logarithmic scale, 0 too has the colour of the lower end.
    coloured = np.maximum(values, least)
    ax.imshow(coloured, norm=norm, cmap=scale.cmap, aspect="auto")
    for row, column in np.argwhere(~np.isfinite(values)):
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **_LOOK))
    if max(len(rows), len(columns)) <= _MOST:
        for row, column in np.argwhere(np.isfinite(values)):
            value = float(values[row, column])
            place = float(norm(max(value, least)))
            dark = abs(2 * place - 1) if least < 0 else place
            look = {"color": "white" if dark > 0.6 else "black", "fontsize": 7.5}
            ax.text(column, row, text(value), ha="center", va="center", **look)
    ax.set_xticks(*_thinned(columns))
    if max(map(len, columns)) > 3:
        for label in ax.get_xticklabels():
            label.set(rotation=45, ha="right", rotation_mode="anchor")
    ax.set_yticks(*_thinned(rows))
    ax.spines[:].set_visible(False)


def diverging(
    values: Iterable[ArrayLike], colours: str = "RdBu", least: float = 1e-6
) -> ScalarMappable:
    """A scale from minus to plus the largest size, which is at least `least`."""
    sizes = [np.abs(np.asarray(x, float)).ravel() for x in values]
    every = np.concatenate(sizes)
    bound = max(every[np.isfinite(every)], default=1.0)
    bound = max(float(bound), least)
    return ScalarMappable(Normalize(-bound, bound), colours)


def colour_bar(
    fig: Figure,
    scale: ScalarMappable,
    axes: Any,
    label: str,
    values: Iterable[ArrayLike],
) -> bool:
    """Draws the bar of a scale if any value is a number; says whether it did."""
    there = any(np.isfinite(np.asarray(x)).any() for x in values)
    if there:
        # A label that is longer than the figure is high would be cut.
        label = textwrap.fill(label, max(12, int(12 * fig.get_figheight())))
        fig.colorbar(scale, ax=axes, label=label, fraction=0.05)
    return there


def explain_undefined(fig: Figure, values: Iterable[ArrayLike]) -> None:
    """Explains hatched cells in a legend below the maps, if there are any."""
    if any(not np.isfinite(np.asarray(x)).all() for x in values):
        patch = Patch(label="undefined", **_LOOK)
        fig.legend(handles=[patch], loc="outside lower left", fontsize=8)


def inches(rows: int, columns: int) -> tuple[float, float]:
    """The width and height of a map with this many rows and columns."""
    return 0.42 * min(max(columns, 4), _MOST), 0.36 * min(max(rows, 3), _MOST)


def places(count: int) -> list[str]:
    """The ticks of layers or heads: their numbers."""
    return [*map(str, range(count))]


def _thinned(names: Sequence[str]) -> tuple[list[int], list[str]]:
    shown = [i for i in range(0, len(names), -(-len(names) // _MOST)) if names[i]]
    return shown, [names[i] for i in shown]


def number(value: float, form: str = ".2f") -> str:
    """Two decimals, without the zero before the point; `0` if both are zero."""
    if abs(value) < 0.005:
        return "0"
    text = f"{value:{form}}"
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
    height, width = next(iter(panels.values())).shape
    scale = diverging(panels.values())
    if limits is not None:
        scale = ScalarMappable(Normalize(*limits), "Blues")
    names = {rows: np.arange(height), columns: np.arange(width)}
    drawn = {name: Quantity(x, names, label) for name, x in panels.items()}
    with style():
        size = 0.9 + (0.8 + 0.38 * width) * len(panels), 0.8 + 0.3 * height
        fig = figure(*size, drawn)
        axes = fig.subplots(1, len(panels), squeeze=False)[0]
        for ax, (title, values) in zip(axes, panels.items(), strict=True):
            heat_map(ax, values, places(height), places(width), scale, "{:.2f}".format)
            ax.set_xlabel(columns)
            ax.set_title(title)
        axes[0].set_ylabel(rows)
        colour_bar(fig, scale, axes, label, panels.values())
        explain_undefined(fig, panels.values())
    return fig
