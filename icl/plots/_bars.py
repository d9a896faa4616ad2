"""Numbers of named things, as bars side by side or as dots with intervals."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ._drawn import DrawnFigure, joined, Quantity
from ._style import add_groups, figure, groups_of, line_style, plain_log, style


def bars(
    panels: Mapping[str, Mapping[str, np.ndarray]],
    names: Sequence[str],
    *,
    label: str = "",
    of: str = "head",
    by: str = "",
    line: float | None = None,
) -> DrawnFigure:
    """Draws bars for each name, with a panel per title and a colour per group.

    **Arguments:**

    - `panels`: The values by title and group, `[name]`; NaN has no bar.
    - `names`: The names along the horizontal axis.
    - `label`: What is measured, with its unit. If it is empty, each title says it for
        its panel, which has limits of its own.
    - `of`: What the names stand for, such as heads.
    - `by`: What the groups are; the title of the legend.
    - `line`: Where to draw a horizontal line.
    """
    groups, shared = groups_of(panels), bool(label)
    places, where = np.arange(len(names)), {of: np.array([*names])}
    thick, drawn = 0.8 / len(groups), {}
    with style():
        width = max(2.4, 0.5 + 0.13 * len(names) * (len(groups) + 1))
        turned = 90 if max(map(len, names)) > 3 else 0
        side = 1.4 if any(groups) else 0.0
        fig = figure(0.4 + width * len(panels) + side, 2.5)
        axes = fig.subplots(1, len(panels), squeeze=False, sharey=shared)[0]
        for ax, (title, by_group) in zip(axes, panels.items(), strict=True):
            for group, values in by_group.items():
                k = groups.index(group)
                offset = (k - (len(groups) - 1) / 2) * thick
                colour = line_style(k + 1)["color"]
                ax.bar(places + offset, values, thick, color=colour, label=group)
                quantity = Quantity(np.asarray(values), where, label or title)
                drawn[joined(title, group) or label] = quantity
            if line is not None:
                ax.axhline(line, color="0.6", lw=0.8, ls=":")
            ax.set_xticks(places, names, rotation=turned)
            ax.set_xlabel(of)
            ax.set_title(title if shared else "")
            ax.set_ylabel("" if shared else title)
        if shared:
            axes[0].set_ylabel(label)
        if any(groups):
            add_groups(fig, axes, by)
        fig.drawn = drawn
    return fig


_AT_RIGHT: Mapping[str, Any] = {
    **{"xycoords": ("axes fraction", "data"), "xytext": (-2, 0)},
    **{"textcoords": "offset points", "ha": "right", "va": "center", "fontsize": 7},
}
"""How a text ends at the right edge of the axes."""


def intervals(
    values: Mapping[str, Mapping[str, float | Sequence[float]]],
    *,
    label: str,
    of: str = "",
    by: str = "",
    scale: Literal["linear", "log"] = "linear",
) -> DrawnFigure:
    """Draws a row for each name, with a dot and an interval for each group.

    **Arguments:**

    - `values`: By group and name, a number, or a number and the two ends of its
        interval. A NaN number has no dot, and NaN ends have no line. An infinite one
        is an arrow at the right: an event that never came.
    - `label`: What is measured, with its unit.
    - `of`: What the names stand for, such as heads.
    - `by`: What the groups are; the title of the legend.
    - `scale`: The scale of the numbers.
    """
    names = groups_of(values)
    drawn = {}
    with style():
        fig = figure(6.4, 0.9 + 0.34 * len(names))
        ax = fig.subplots()
        for k, (group, rows) in enumerate(values.items()):
            at = np.array([names.index(name) for name in rows], float)
            at += (k - (len(values) - 1) / 2) * 0.7 / len(values)
            triples = [
                (x, np.nan, np.nan) if np.ndim(x) == 0 else x for x in rows.values()
            ]
            value, low, high = np.array(triples, float).reshape(-1, 3).T
            look = {"color": line_style(k)["color"], "lw": 1.2}
            # A mean can lie outside the interval, if that is of a transformed mean.
            middle, half = (low + high) / 2, (high - low) / 2
            ax.errorbar(middle, at, xerr=half, fmt="none", capsize=2, **look)
            mark = "D" if k == 0 else "o"
            never = np.isinf(value)
            there = np.where(never, np.nan, value)
            ax.plot(there, at, mark, ms=4, label=group, clip_on=False, **look)
            for y in at[never]:
                ax.annotate("never →", (1, y), color=look["color"], **_AT_RIGHT)
            where = {"name": np.array([*rows])}
            for end, column in (("", value), ("/low", low), ("/high", high)):
                drawn[f"{group}{end}"] = Quantity(column, where, label)
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_ylabel(of)
        ax.set_xscale(scale)
        if scale == "log":
            plain_log(ax.xaxis)
        ax.grid(axis="y", color="0.9", lw=0.8)
        ax.set_axisbelow(True)
        ax.set_xlabel(label)
        if len(values) > 1:
            fig.legend(loc="outside right center", title=by or None)
        fig.drawn = drawn
    return fig
