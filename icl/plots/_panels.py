"""Curves over training: panels of traces, and the means of their groups.

Every figure of curves is made of such panels.
"""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from ..checks import check_axes
from ._drawn import Drawn, DrawnFigure, Quantity
from ._interval import finite, Interval
from ._legend import handles_of, Key, key_of, Legend, MARK, Numbered
from ._style import figure, sequences_axis, style, unit_of


# More traces cannot be seen in one panel. Means and bands use all traces.
MOST_TRACES = 2000
_HALO = (patheffects.withStroke(linewidth=2.2, foreground="white"),)


Middle = Literal["mean", "median"]

Limits = tuple[float | int | None, float | int | None]
"""The ends of an axis; `None` fits the data."""


def named_level(value: float, unit: str = "") -> tuple[float, str]:
    """A horizontal line and its text in the legend."""
    text = f"{value:.3g} {unit}".strip()
    if math.isclose(value, math.log(2) / 2, abs_tol=1e-6):
        text = f"half of ln 2\n({text})"
    return value, text


@dataclass(frozen=True)
class Panel:
    """Traces over training in one pair of axes.

    **Fields:**

    - `values`: `[checkpoint, trace]`.
    - `groups`: The label or number of each trace; `None` if they are one group.
    - `name`: The name of the data in `drawn`; unique in a figure.
    - `title`, `label`: The text above the panel and along the vertical axis.
    - `row`: What the panels of this row have in common, written before the label.
    - `limits`: The limits of the vertical axis; `None` fits the data.
    - `threshold`: Where to draw a horizontal line, and its text.
    """

    values: np.ndarray
    groups: np.ndarray | None = None
    name: str = ""
    title: str = ""
    label: str = ""
    limits: Limits | None = None
    threshold: tuple[float, str] | None = None
    row: str = ""


@dataclass(frozen=True)
class Look:
    """What the panels of a figure have in common.

    **Fields:**

    - `columns`: The number of panels side by side.
    - `by`: What the groups are; the title of the legend or of the colour bar.
    - `trace`: What one trace is.
    - `band`: What to draw around each mean.
    - `phase_change`: Where to draw a vertical line, in sequences seen.
    - `middle`: What is drawn of each group, over its traces.
    """

    columns: int = 4
    by: str = ""
    trace: str = "trace"
    band: Interval | None = None
    phase_change: float | None = None
    middle: Middle = "mean"
    seen: str = "sequences seen"


def draw(sequences: np.ndarray, panels: Sequence[Panel], look: Look) -> DrawnFigure:
    """Draws panels in a figure.

    **Raises:** `ValueError` for arrays that do not fit together.
    """
    sequences = np.asarray(sequences, float)
    _check(sequences, panels)
    key = key_of([panel.groups for panel in panels])
    columns = min(look.columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    alike = len({(panel.label, panel.limits) for panel in panels}) == 1
    count = max(panel.values.shape[1] for panel in panels)
    unit, text = unit_of(float(sequences.max(initial=0)), look.seen)
    thin = any(_several(panel, key) for panel in panels)
    title = f"{look.middle} by {look.by}" if thin and look.by else look.by
    with style():
        handles = handles_of(
            key,
            trace=_trace_text(look.trace, count) if thin else "",
            middle=look.middle,
            band=look.band and look.band.text(look.trace),
            thresholds=[panel.threshold[1] for panel in panels if panel.threshold],
            phase_change=look.phase_change is not None,
        )
        width, height = _inches(columns, rows, alike)
        legend = Legend(handles, title, key, height)
        fig = figure(width + legend.width, height)
        grid = fig.subplots(rows, columns, squeeze=False, sharex=True, sharey=alike)
        drawn: dict[str, Quantity] = {}
        for ax, panel in zip(grid.flat, panels, strict=False):
            found = _draw_panel(ax, sequences, unit, panel, key, look)
            prefix = f"{panel.name}/" if panel.name else ""
            drawn |= {f"{prefix}{name}": found[name] for name in found}
            sequences_axis(ax, text, small=columns > 2)
        _trim(grid, len(panels), alike)
        if isinstance(key, Numbered):
            fig.colorbar(key.scale, ax=grid, label=look.by, fraction=0.05, aspect=30)
        legend.add(fig)
    if look.phase_change is not None:
        mark = np.asarray(float(look.phase_change))
        drawn["phase change"] = Quantity(mark, label="sequences seen")
    fig.drawn = drawn
    return fig


def as_panels(
    values: np.ndarray | Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Arrays by the name of their panel; a single array has an empty name."""
    given = values if isinstance(values, Mapping) else {"": values}
    return {name: np.asarray(array) for name, array in given.items()}


def _draw_panel(
    ax: Axes, sequences: np.ndarray, unit: float, panel: Panel, key: Key, look: Look
) -> Drawn:
    """Draws one panel and returns the quantities drawn."""
    values = np.asarray(panel.values, float)
    values = np.where(np.isfinite(values), values, np.nan)
    members = key.traces(panel.groups, values.shape[1])
    groups = [k for k, rows in enumerate(members) if rows.size]
    x = sequences / unit
    drawn = {}
    thin = _several(panel, key)
    if thin:
        shown = _chosen(members)
        colours = key.colours(panel.groups, values.shape[1])
        _thin_lines(ax, x, values, shown, colours, isinstance(key, Numbered))
        drawn |= _thin_drawn(sequences, panel, shown, look)
    over = operator.methodcaller(look.middle)
    means = np.stack([over(finite(values[:, members[k]])) for k in groups], 1)
    for k, mean in zip(groups, means.T, strict=True):
        halo = _HALO if thin else None
        look_of = {**key.style(k), "path_effects": halo, "zorder": 3}
        ax.plot(x, mean, label=key.names[k] or None, **look_of)
    names = np.array([key.names[k] for k in groups])
    axes = {"sequences seen": sequences, look.by or "group": names}
    drawn[look.middle] = Quantity(means, axes, panel.label)
    if look.band is not None:
        edges = [look.band.bounds(values[:, members[k]]) for k in groups]
        for k, (low, high) in zip(groups, edges, strict=True):
            colour = key.style(k)["color"]
            ax.fill_between(x, low, high, fc=colour, ec="none", alpha=0.25, zorder=2)
            ax.plot(x, np.stack([low, high], 1), color=colour, lw=0.4, zorder=2)
        for name, edge in zip(("low", "high"), zip(*edges, strict=True), strict=True):
            drawn[name] = Quantity(np.stack(edge, 1), axes, panel.label)
    _furnish(ax, panel, unit, look)
    return drawn


def _furnish(ax: Axes, panel: Panel, unit: float, look: Look) -> None:
    """Draws the marks, the title and the vertical axis of a panel."""
    if look.phase_change is not None:
        ax.axvline(look.phase_change / unit, ls="--", **MARK)
    if panel.threshold is not None:
        ax.axhline(panel.threshold[0], ls=":", **MARK)
    ax.set_title(panel.title)
    ax.set_ylabel(f"{panel.row}\n{panel.label}".strip())
    if panel.limits is not None:
        ax.set_ylim(*panel.limits)


def _thin_lines(
    ax: Axes,
    x: np.ndarray,
    values: np.ndarray,
    shown: np.ndarray,
    colours: list,
    strong: bool,
) -> None:
    """Draws all traces as one collection, in random order, so no group hides others."""
    order = np.random.default_rng(0).permutation(shown)
    points = np.empty((len(order), len(x), 2))
    points[..., 0], points[..., 1] = x, values[:, order].T
    lines = LineCollection(
        list(points),
        colors=[colours[k] for k in order],
        linewidths=0.5,
        alpha=float(np.clip(30 / len(order), 0.25 if strong else 0.1, 0.45)),
        # Many lines become a picture in a vector file, which would be too large else.
        rasterized=points.size > 20_000,
        zorder=1,
    )
    ax.add_collection(lines, autolim=False)
    if np.isfinite(points).any():
        heights = points[..., 1]
        ends = (x.min(), np.nanmin(heights)), (x.max(), np.nanmax(heights))
        ax.update_datalim(ends)
        ax.autoscale_view()


def _thin_drawn(
    sequences: np.ndarray, panel: Panel, shown: np.ndarray, look: Look
) -> dict[str, Quantity]:
    """The single traces that are drawn, and the group of each."""
    axes = {"sequences seen": sequences, look.trace: shown}
    drawn = {"traces": Quantity(panel.values[:, shown], axes, panel.label)}
    if panel.groups is not None:
        axes = {look.trace: shown}
        drawn["group"] = Quantity(panel.groups[shown], axes, look.by)
    return drawn


def _chosen(members: Sequence[np.ndarray]) -> np.ndarray:
    """The traces that are drawn: all, or at most so many, evenly from each group."""
    ordered = np.concatenate(members)
    if len(ordered) > MOST_TRACES:
        places = np.linspace(0, len(ordered) - 1, MOST_TRACES).round().astype(int)
        ordered = ordered[places]
    return np.sort(ordered)


def _several(panel: Panel, key: Key) -> bool:
    """Whether there are single traces to draw under the means."""
    members = key.traces(panel.groups, panel.values.shape[1])
    return any(len(rows) > 1 for rows in members)


def _trace_text(trace: str, count: int) -> str:
    """What the thin lines are, for the legend."""
    part = f"{MOST_TRACES:,} of {count:,}\n" if count > MOST_TRACES else "single "
    return f"{part}{trace}s"


def _inches(columns: int, rows: int, alike: bool) -> tuple[float, float]:
    """The width and height of all panels; three columns are as wide as a page."""
    wide = {1: 3.4, 2: 2.6}.get(columns, 2.0)
    tall = {1: 2.5}.get(rows, 1.75)
    return 0.3 + columns * (wide + 0.4 * (not alike)), 0.3 + rows * tall


def _trim(grid: np.ndarray, count: int, alike: bool) -> None:
    """Hides unused panels, and labels that another panel has already."""
    rows, columns = grid.shape
    for index, ax in enumerate(grid.flat):
        row, column = divmod(index, columns)
        if index >= count:
            ax.set_visible(False)
        if index + columns < count:
            ax.set_xlabel("")
        elif row < rows - 1:
            ax.tick_params(labelbottom=True)
        if column and alike:
            ax.set_ylabel("")


def _check(sequences: np.ndarray, panels: Sequence[Panel]) -> None:
    """Raises `ValueError` unless the arrays fit together and have numbers."""
    if not sequences.size or not panels:
        raise ValueError("wanted sequences [checkpoint] and some values, got none")
    for panel in panels:
        where = f"values of {panel.name!r}" if panel.name else "values"
        arrays = {where: (np.asarray(panel.values), "checkpoint trace")}
        if panel.groups is not None:
            arrays[f"groups of {where}"] = (panel.groups, "trace")
        check_axes(sequences=(sequences, "checkpoint"), **arrays)
        if not np.size(panel.values):
            raise ValueError(f"{where} must have at least one trace, got none")
