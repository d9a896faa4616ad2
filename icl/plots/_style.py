"""The style of all figures, and empty figures in this style."""

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from ._drawn import Drawn, DrawnFigure, PLAIN


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Applies the style sheet `paper.mplstyle` inside a `with` block.

    Text is drawn literally, so a `$` in the name of a run or a set stays a `$`.
    """
    with mpl.rc_context({**_sheet(), **PLAIN}):
        yield


def colours() -> list[str]:
    """The colours of the style sheet, in order."""
    return _sheet()["axes.prop_cycle"].by_key()["color"]


# There are eight colours. The first eight lines are solid, the next eight are dashed.
LINES = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)))
# Likewise of dots.
MARKERS = ("o", "^", "s", "D")


def line_style(index: int) -> dict:
    """Colour and dashes of the line with this index; the first 32 all differ."""
    turn, place = divmod(index, len(colours()))
    return {"color": colours()[place], "ls": LINES[turn % len(LINES)]}


def dot_style(index: int) -> dict:
    """Colour and marker of the dots with this index; the first 32 all differ."""
    turn, place = divmod(index, len(colours()))
    return {"color": colours()[place], "marker": MARKERS[turn % len(MARKERS)]}


def figure(width: float, height: float, drawn: Drawn | None = None) -> DrawnFigure:
    """An empty figure of a size in inches, without a window.

    **Arguments:**

    - `drawn`: The quantities that the figure will show.
    """
    return DrawnFigure(drawn, figsize=(width, height), layout="constrained")


def unit_of(largest: float, seen: str = "sequences seen") -> tuple[float, str]:
    """The unit on an axis of `seen` up to `largest`, and the axis label."""
    if largest >= 2e6:
        return 1e6, f"{seen} (millions)"
    return 1e3, f"{seen} (thousands)"


def sequences_axis(ax: Axes, label: str, *, small: bool = False) -> None:
    """Labels the horizontal axis as sequences seen."""
    ax.set_xlabel(label, fontsize=7.5 if small else None)
    ax.set_xlim(left=0)


@functools.cache
def _sheet() -> mpl.RcParams:
    path = Path(__file__).with_name("paper.mplstyle")
    return mpl.rc_params_from_file(path, use_default_template=False)


def plain_log(axis: Axis) -> None:
    """Writes the numbers of a logarithmic axis as they are, not as powers of ten.

    An axis of less than a decade has numbers between the powers, too.
    """
    axis.set_major_formatter("{x:g}")  # Avoids mathtext.
    axis.set_minor_formatter(_Between())


class _Between(LogFormatter):
    """Numbers where Matplotlib would write any, but never as a power of ten."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""


def groups_of(panels: Mapping[str, Iterable[str]]) -> list[str]:
    """The names of the groups of all panels, each once."""
    return list(dict.fromkeys(name for each in panels.values() for name in each))


def add_groups(
    fig: Figure, axes: Iterable[Axes], title: str = "", place: str = "center"
) -> None:
    """Puts a legend of the groups in all panels, each once, to the right of them."""
    handles = {}
    for ax in axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    look = {"loc": f"outside right {place}", "title": title or None}
    fig.legend([*handles.values()], [*handles], **look)
