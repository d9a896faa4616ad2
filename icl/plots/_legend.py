"""Legends of figures of curves, to the right of the data."""

import math
from collections.abc import Iterable, Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ._groups import Key, Numbered


Handle = Line2D | Patch

MARK = {"color": "0.6", "lw": 0.8}
"""The style of lines that mark a place on an axis."""
_GREY = "0.45"


def handles_of(
    key: Key,
    *,
    trace: str = "",
    band: str | None = None,
    thresholds: Iterable[str] = (),
    phase_change: bool = False,
) -> list[Handle]:
    """The entries of a legend.

    **Arguments:**

    - `key`: The groups.
    - `trace`: What the thin lines are, and how many; empty if there are none.
    - `band`: What the bands are, if there are any.
    - `thresholds`: What the horizontal lines are.
    - `phase_change`: Whether there is a vertical line.
    """
    handles: list[Handle] = []
    for k, name in enumerate(key.names):
        text = name or ("mean" if trace or band else "")
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


def add_legend(fig: Figure, handles: Sequence[Handle], title: str, key: Key) -> None:
    """Puts the legend to the right of all panels."""
    if not handles:
        return
    fig.legend(
        handles=handles,
        loc="outside right center",
        title=_title(title, key) or None,
        alignment="left",
        ncols=_columns(handles, fig.get_figheight()),
    )


def legend_width(
    handles: Sequence[Handle], title: str, key: Key, height: float
) -> float:
    """The width in inches that the legend and a colour bar, if there is one, need."""
    texts = [line for handle in handles for line in _text(handle).split("\n")]
    longest = max(map(len, [*texts, _title(title, key)]), default=0)
    bar = 0.7 if isinstance(key, Numbered) else 0.0
    if not handles:
        return bar
    return bar + (0.5 + 0.062 * longest) * _columns(handles, height)


def _title(title: str, key: Key) -> str:
    """The title if the legend has several groups, else nothing."""
    return "" if isinstance(key, Numbered) or len(key.names) < 2 else title


def _columns(handles: Sequence[Handle], height: float) -> int:
    lines = sum(1 + _text(handle).count("\n") for handle in handles) + 2
    return math.ceil(0.17 * lines / height)


def _text(handle: Handle) -> str:
    return str(handle.get_label())
