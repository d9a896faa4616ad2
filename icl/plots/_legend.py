"""The colours of groups of traces, and the legend to the right of the data."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ._style import line_style, LINES


# How many groups can be told apart by colour and dashes.
MOST_GROUPS = 8 * len(LINES)


class TooManyGroups(ValueError):
    """Raised for more labels than lines that can be told apart."""


@dataclass(frozen=True)
class Labelled:
    """A colour for each label; after eight colours, the dashes change."""

    names: tuple[str, ...]

    def style(self, group: int) -> dict:
        """The style of a group's line."""
        return line_style(group)

    def traces(self, groups: np.ndarray | None, count: int) -> list[np.ndarray]:
        """The indices of the traces in each group."""
        if groups is None:
            return [np.arange(count)]
        return [np.flatnonzero(groups.astype(str) == name) for name in self.names]

    def colours(self, groups: np.ndarray | None, count: int) -> list[str]:
        """The colour of each trace."""
        chosen = np.full(count, line_style(0)["color"], object)
        for k, members in enumerate(self.traces(groups, count)):
            chosen[members] = self.style(k)["color"]
        return chosen.tolist()


@dataclass(frozen=True)
class Numbered:
    """A colour map for numbers; the only mean is that of all traces."""

    scale: ScalarMappable

    def style(self, group: int) -> dict:
        """The style of the line of the mean."""
        return line_style(0)

    def traces(self, groups: np.ndarray | None, count: int) -> list[np.ndarray]:
        """All traces, as one group."""
        return [np.arange(count)]

    def colours(self, groups: np.ndarray | None, count: int) -> list:
        """The colour of each trace."""
        return list(self.scale.to_rgba(np.asarray(groups, float)))

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the only group."""
        return ("mean",)


Key = Labelled | Numbered


def key_of(panels: Sequence[np.ndarray | None]) -> Key:
    """One key for the groups of all panels, each `[trace]`.

    Floats count as numbers. So do integers, if too many are different to tell them
    apart. All other values are labels, in the order in which they first occur; integer
    labels ascend.

    **Raises:** `TooManyGroups` for more labels than different lines.
    """
    given = [groups for groups in panels if groups is not None]
    if not given:
        return Labelled(("",))
    every = np.concatenate([np.asarray(groups) for groups in given])
    distinct, first = np.unique(every, return_index=True)
    whole = every.dtype.kind in "iu"
    if every.dtype.kind == "f" or (whole and len(distinct) > MOST_GROUPS):
        known = every[np.isfinite(every.astype(float))]
        low, high = (known.min(), known.max()) if known.size else (0, 1)
        return Numbered(ScalarMappable(Normalize(low, high), "viridis"))
    if len(distinct) > MOST_GROUPS:
        raise TooManyGroups(
            f"groups: at most {MOST_GROUPS} labels can be told apart, got "
            f"{len(distinct)}; for a colour map, give a number for each trace"
        )
    ordered = distinct if whole else distinct[np.argsort(first)]
    return Labelled(tuple(str(name) for name in ordered))


Handle = Line2D | Patch

MARK = {"color": "0.6", "lw": 0.8}
"""The style of lines that mark a place on an axis."""
_GREY = "0.45"


def handles_of(
    key: Key,
    *,
    trace: str = "",
    middle: str = "mean",
    band: str | None = None,
    thresholds: Iterable[str] = (),
    phase_change: bool = False,
) -> list[Handle]:
    """The entries of a legend.

    **Arguments:**

    - `key`: The groups.
    - `trace`: What the thin lines are, and how many; empty if there are none.
    - `middle`: What the thick lines are, if there is one group.
    - `band`: What the bands are, if there are any.
    - `thresholds`: What the horizontal lines are.
    - `phase_change`: Whether there is a vertical line.
    """
    handles: list[Handle] = []
    for k, name in enumerate(key.names):
        text = name or (middle if trace or band else "")
        if text:
            handles.append(Line2D([], [], label=text, **key.style(k)))
    if trace:
        handles.append(Line2D([], [], color=_GREY, lw=0.5, label=trace))
    if band is not None:
        handles.append(Patch(color=_GREY, alpha=0.3, lw=0, label=band))
    for text in sorted(set(thresholds)):
        handles.append(Line2D([], [], ls=":", label=text, **MARK))
    if phase_change:
        handles.append(Line2D([], [], ls="--", label="phase change", **MARK))
    return handles


@dataclass(frozen=True)
class Legend:
    """The legend to the right of all panels of a figure, whose height is in inches."""

    handles: Sequence[Handle]
    of: str
    key: Key
    height: float

    @property
    def title(self) -> str:
        """What the groups are, if the legend has several."""
        alone = isinstance(self.key, Numbered) or len(self.key.names) < 2
        return "" if alone else self.of

    @property
    def columns(self) -> int:
        """How many columns its entries need."""
        lines = sum(1 + text.count("\n") for text in self.texts) + 2
        return math.ceil(0.17 * lines / self.height)

    @property
    def texts(self) -> list[str]:
        """What is written beside each entry."""
        return [str(handle.get_label()) for handle in self.handles]

    @property
    def width(self) -> float:
        """The inches that the legend and a colour bar, if there is one, need."""
        bar = 0.7 if isinstance(self.key, Numbered) else 0.0
        if not self.handles:
            return bar
        lines = [line for text in self.texts for line in text.split("\n")]
        longest = max(map(len, [*lines, self.title]))
        return bar + (0.5 + 0.062 * longest) * self.columns

    def add(self, fig: Figure) -> None:
        """Draws it."""
        if self.handles:
            fig.legend(
                handles=self.handles,
                loc="outside right center",
                title=self.title or None,
                alignment="left",
                ncols=self.columns,
            )
