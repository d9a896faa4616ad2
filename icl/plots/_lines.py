"""Curves against any number: steps, layers, scales; with bands and markers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Num
from matplotlib.ticker import NullFormatter

from ..checks import check_scale
from ._drawn import DrawnFigure, Quantity
from ._style import figure, line_style, LINES, style


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

    def __post_init__(self):
        for name in ("y", "low", "high"):
            values = getattr(self, name)
            if values is not None and np.shape(values) != np.shape(self.x):
                wanted = f"{name} must be {[*np.shape(self.x)]} as x is"
                raise ValueError(f"{wanted}, got {[*np.shape(values)]}")
        check_scale("width", self.width)


def lines(
    panels: Mapping[str, Mapping[str, Line]],
    *,
    x: str,
    y: str,
    scale: Literal["linear", "log"] = "linear",
) -> DrawnFigure:
    """Draws curves in panels side by side, each panel with its own limits.

    **Arguments:**

    - `panels`: The curves by title and name. A name has one colour in all panels. After
        eight names without a colour of their own, lines are dashed.
    - `x`, `y`: What the numbers are, with their units.
    - `scale`: Of the vertical axis.

    **Raises:** `ValueError` if there is no panel.
    """
    if not panels:
        raise ValueError("panels must have at least one panel, got none")
    every = [(name, line) for each in panels.values() for name, line in each.items()]
    names = list(dict.fromkeys(name for name, line in every if not line.colour))
    styles = {name: line_style(k) for k, name in enumerate(names)}
    drawn = {}
    with style():
        fig = figure(1.8 + 3.0 * len(panels), 2.8)
        axes = fig.subplots(1, len(panels), squeeze=False)[0]
        for ax, (title, curves) in zip(axes, panels.items(), strict=True):
            for name, line in curves.items():
                own = {"color": line.colour, "ls": LINES[0]}
                _draw(ax, name, line, own if line.colour else styles[name])
                prefix = "/".join(part for part in (title, name) if part)
                drawn |= _quantities(prefix, line, x, y)
            ax.set_title(title)
            ax.set_xlabel(x)
            ax.set_yscale(scale)
            if scale == "log":
                ax.yaxis.set_major_formatter("{x:g}")  # Avoids mathtext.
                ax.yaxis.set_minor_formatter(NullFormatter())
        axes[0].set_ylabel(y)
        handles = {}
        for ax in axes:
            for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
                handles.setdefault(name, handle)
        fig.legend([*handles.values()], [*handles], loc="outside right center")
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
