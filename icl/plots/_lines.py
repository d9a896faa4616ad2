"""Curves against any number: steps, layers, scales, sizes of a task."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Num
from matplotlib.ticker import MaxNLocator, NullLocator

from ._drawn import DrawnFigure, joined, Quantity
from ._style import add_groups, figure, line_style, LINES, plain_log, style


@dataclass(frozen=True)
class Line:
    """One curve.

    **Fields:**

    - `x`, `y`: Where its points are, `[point]`. A point that is not finite is left out.
    - `low`, `high`: The edges of a band around it, `[point]`; `None` has no band.
    - `colour`: A name or a hex code; empty takes the next of the style sheet.
    - `marker`: A marker of Matplotlib; empty has none.
    - `dashed`: Whether the line is dashed.
    - `width`: Of the line, in points. A wide line shows under a thin one.
    """

    x: Num[np.ndarray, " point"]
    y: Float[np.ndarray, " point"]
    low: Float[np.ndarray, " point"] | None = None
    high: Float[np.ndarray, " point"] | None = None
    colour: str = ""
    marker: str = ""
    dashed: bool = False
    width: float = 1.2


def lines(
    panels: Mapping[str, Mapping[str, Line]],
    *,
    x: str,
    y: str,
    scale: Literal["linear", "log"] = "linear",
    columns: int | None = None,
) -> DrawnFigure:
    """Draws curves in panels side by side, each panel with its own limits.

    **Arguments:**

    - `panels`: The curves by title and name. A name has one colour in all panels. After
        eight names without a colour of their own, lines are dashed.
    - `x`, `y`: What the numbers are, with their units.
    - `scale`: Of the vertical axis.
    - `columns`: Panels in a row; `None` puts all in one.

    **Raises:** `ValueError` if there is no panel, or for arrays of unequal lengths.
    """
    if not panels:
        raise ValueError("panels must have at least one panel, got none")
    columns = min(len(panels), columns or len(panels))
    rows = math.ceil(len(panels) / columns)
    every = [(name, line) for each in panels.values() for name, line in each.items()]
    names = list(dict.fromkeys(name for name, line in every if not line.colour))
    styles = {name: line_style(k) for k, name in enumerate(names)}
    with style():
        fig = figure(1.8 + 3.0 * columns, 0.4 + 2.4 * rows)
        grid = fig.subplots(rows, columns, squeeze=False)
        axes = grid.flat[: len(panels)]
        drawn = {}
        for ax, (title, curves) in zip(axes, panels.items(), strict=True):
            for name, line in curves.items():
                drawn |= _quantities(joined(title, name), line, x, y)
                own = {"color": line.colour, "ls": LINES[0]}
                _draw(ax, name, line, own if line.colour else styles[name])
            ax.set_title(title)
            ax.set_xlabel(x)
            if all(np.asarray(line.x).dtype.kind in "iu" for line in curves.values()):
                ax.xaxis.set_major_locator(MaxNLocator(integer=True))
            ax.set_yscale(scale)
            if scale == "log":
                plain_log(ax.yaxis)
        for ax in grid.flat[len(panels) :]:
            ax.remove()
        for ax in grid[:, 0]:
            ax.set_ylabel(y)
        add_groups(fig, axes)
        fig.drawn = drawn
    return fig


def _draw(ax, name: str, line: Line, of_name: dict) -> None:
    dashes = LINES[1] if line.dashed else of_name["ls"]
    look = {**of_name, "ls": dashes, "lw": line.width, "ms": 5}
    there = np.isfinite(line.y)
    across, up = np.asarray(line.x)[there], np.asarray(line.y)[there]
    ax.plot(across, up, marker=line.marker or None, label=name, **look)
    if line.low is not None and line.high is not None:
        band = {"color": look["color"], "alpha": 0.15, "lw": 0}
        ax.fill_between(line.x, line.low, line.high, **band)


def _quantities(prefix: str, line: Line, x: str, y: str) -> dict[str, Quantity]:
    where = {x: np.asarray(line.x)}
    parts = {"": line.y, "/low": line.low, "/high": line.high}
    return {
        f"{prefix}{end}": Quantity(np.asarray(values), where, y)
        for end, values in parts.items()
        if values is not None
    }


def head_lines(
    x: Float[np.ndarray, " point"],
    values: Mapping[str, Float[np.ndarray, "point head"]],
    *,
    of: str,
    label: str,
    limits: tuple[float, float] = (0, 1.02),
    threshold: float | None = None,
) -> DrawnFigure:
    """Draws a line for each head, with a panel for each title.

    **Arguments:**

    - `x`: The horizontal coordinates of the lines; `of` names them.
    - `values`: The values of each head, by the title of the panel; `label` names them.
    - `limits`: The limits of the vertical axis.
    - `threshold`: Where to draw a horizontal line, such as chance.
    """
    x_name, y_name = (" ".join(text.split()) for text in (of, label))
    drawn = {}
    with style():
        fig = figure(3.0 * len(values) + 0.6, 2.6)
        axes = fig.subplots(1, len(values), sharey=True, squeeze=False)[0]
        for ax, (title, heads) in zip(axes, values.items(), strict=True):
            for head, line in enumerate(heads.T):
                ax.plot(x, line, label=f"{head}", **line_style(head))
            if threshold is not None:
                ax.axhline(threshold, color="0.6", lw=0.8, ls=":")
            ax.set_xlabel(of)
            ax.set_title(title)
            where = {x_name: np.asarray(x), "head": np.arange(heads.shape[1])}
            drawn[title] = Quantity(heads, where, y_name)
        axes[0].set(ylabel=label, ylim=limits)
        add_groups(fig, axes, "head", "upper")
        fig.drawn = drawn
    return fig


def learning_times(
    panels: Mapping[str, Mapping[str, Mapping[int, float]]], *, by: str
) -> DrawnFigure:
    """Draws the sequences seen until something is learnt, against sizes of the task.

    **Arguments:**

    - `panels`: By what is varied, such as `"classes"`, and by the name of a line: the
        sequences seen, by size. `inf` means never learnt and is not drawn.
    - `by`: What the lines are; the title of the legend.
    """
    label = "thousands of sequences"
    drawn = {}
    with style():
        fig = figure(3.0 * len(panels) + 1.3, 2.9)
        axes = fig.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for ax, (name, lines) in zip(axes, panels.items(), strict=True):
            for line, times in lines.items():
                sizes = np.array([*times], int)
                values = np.array([*times.values()], float)
                shown = np.where(np.isfinite(values), values, np.nan) / 1e3
                ax.plot(sizes, shown, "o-", ms=4, label=line)
                where = {f"number of {name}": sizes}
                drawn[f"{name}/{line}"] = Quantity(values, where, "sequences seen")
            ax.set_xscale("log", base=2)
            every = sorted({size for times in lines.values() for size in times})
            ax.set_xticks(every, [str(size) for size in every])
            ax.xaxis.set_minor_locator(NullLocator())
            ax.set_xlabel(f"number of {name}")
        # A logarithmic axis cannot be drawn without a number.
        if any(np.isfinite(quantity.values).any() for quantity in drawn.values()):
            axes[0].set_yscale("log")
        for ax in axes:
            plain_log(ax.yaxis)
        axes[0].set_ylabel(label)
        add_groups(fig, axes, by, "upper")
        fig.drawn = drawn
    return fig
