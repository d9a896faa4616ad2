"""Scatter plots of one number against another, with a dot for each head or run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from ._drawn import DrawnFigure, joined, Quantity
from ._style import add_groups, dot_style, figure, groups_of, style


Dots = tuple[np.ndarray, np.ndarray]
"""The horizontal and the vertical numbers, each `[dot]`."""


def dots(
    panels: Mapping[str, Mapping[str, Dots]],
    *,
    x: str,
    y: str | Sequence[str],
    names: Mapping[str, Sequence[str]] | None = None,
    by: str = "",
    identity: bool = False,
) -> DrawnFigure:
    """Draws scatter plots side by side.

    **Arguments:**

    - `panels`: The dots by title and group; dots that are not finite are left out.
    - `x`, `y`: What the numbers are, with their units; `y` for all panels or for each.
    - `names`: By group, what to write at each of its dots, in every panel.
    - `by`: What the groups are; the title of the legend.
    - `identity`: Whether to draw the line where both numbers are equal.

    **Raises:** `ValueError` if there are several `y`, but not one for each panel.
    """
    labels = [y] * len(panels) if isinstance(y, str) else [*y]
    if len(labels) != len(panels):
        raise ValueError(
            f"y: wanted one label for each of {len(panels)} panels, got {len(labels)}"
        )
    groups = groups_of(panels)
    # Of several groups none is black, the colour of the axes.
    looks = {g: dot_style(k + (len(groups) > 1)) for k, g in enumerate(groups)}
    drawn = {}
    with style():
        side = 1.3 if len(groups) > 1 else 0.0
        fig = figure(0.4 + 2.9 * len(panels) + side, 2.7)
        axes = fig.subplots(1, len(panels), squeeze=False)[0]
        for ax, label, title in zip(axes, labels, panels, strict=True):
            for group, (across, up) in panels[title].items():
                ax.scatter(across, up, s=16, lw=0, label=group, **looks[group])
                where = {"dot": np.arange(len(across))}
                prefix = joined(title, group)
                drawn[f"{prefix}/x"] = Quantity(np.asarray(across), where, x)
                drawn[f"{prefix}/y"] = Quantity(np.asarray(up), where, label)
            if identity:
                ax.axline((0, 0), slope=1, color="0.6", lw=0.8, ls=":", zorder=0)
            ax.set_title(title)
            ax.set_xlabel(x)
            ax.set_ylabel(label)
            taken = [*_boxes(ax, panels[title].values())]
            for group, (across, up) in panels[title].items():
                texts = (names or {}).get(group, ())
                _write(ax, texts, across, up, looks[group]["color"], taken)
        if len(groups) > 1:
            add_groups(fig, axes, by)
        fig.drawn = drawn
    return fig


_SIZE = 7.5  # Of the texts, in points.
_RADIUS = 2.5
# Where a text may begin, in points from its dot: the first free place is taken.
_PLACES = ((3.5, 2), (3.5, -8), (-8, 2), (-8, -8), (-2, 5), (-2, -11))
_Box = tuple[float, float, float, float]  # Left, bottom, right and top, in points.


def _boxes(ax: Axes, groups: Iterable[Dots]) -> Iterator[_Box]:
    """What the dots cover."""
    for across, up in groups:
        for x, y in _points(ax, across, up):
            yield x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS


def _points(ax: Axes, across: np.ndarray, up: np.ndarray) -> list[tuple[float, float]]:
    """Where the dots are in the figure, in points, before its final layout."""
    ax.autoscale_view()  # Otherwise only drawing would find the limits.
    at = np.stack([np.asarray(across, float), np.asarray(up, float)], -1)
    found = ax.transData.transform(at) * 72 / ax.figure.dpi
    return [(float(x), float(y)) for x, y in found]


def _write(
    ax: Axes,
    texts: Sequence[str],
    across: np.ndarray,
    up: np.ndarray,
    colour: str,
    taken: list[_Box],
) -> None:
    """Writes a text beside each finite dot, clear of texts and dots if possible."""
    for text, a, b, (x, y) in zip(
        texts, across, up, _points(ax, across, up), strict=False
    ):
        if not np.isfinite([a, b]).all():
            continue
        width = 0.6 * _SIZE * len(text)
        boxes = [(x + i, y + j, x + i + width, y + j + _SIZE) for i, j in _PLACES]
        overlaps = [any(_overlap(box, other) for other in taken) for box in boxes]
        k = overlaps.index(False) if False in overlaps else 0
        taken.append(boxes[k])
        place = {"xytext": _PLACES[k], "textcoords": "offset points"}
        ax.annotate(text, (a, b), fontsize=_SIZE, color=colour, **place)


def _overlap(a: _Box, b: _Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
