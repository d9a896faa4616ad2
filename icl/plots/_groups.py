"""The colours of traces: one for each group, or a colour map for numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

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
