"""The style of all figures, and empty figures in this style."""

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes

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
    every = colours()
    return {
        "color": every[index % len(every)],
        "ls": LINES[index // len(every) % len(LINES)],
    }


def dot_style(index: int) -> dict:
    """Colour and marker of the dots with this index; the first 32 all differ."""
    every = colours()
    return {
        "color": every[index % len(every)],
        "marker": MARKERS[index // len(every) % len(MARKERS)],
    }


def figure(width: float, height: float, drawn: Drawn | None = None) -> DrawnFigure:
    """An empty figure of a size in inches, without a window.

    **Arguments:**

    - `drawn`: The quantities that the figure will show.
    """
    return DrawnFigure(drawn, figsize=(width, height), layout="constrained")


def unit_of(largest: float) -> tuple[float, str]:
    """The unit of sequences seen on an axis up to `largest`, and the axis label."""
    if largest >= 2e6:
        return 1e6, "sequences seen (millions)"
    return 1e3, "sequences seen (thousands)"


def sequences_axis(ax: Axes, label: str, *, small: bool = False) -> None:
    """Labels the horizontal axis as sequences seen."""
    ax.set_xlabel(label, fontsize=7.5 if small else None)
    ax.set_xlim(left=0)


@functools.cache
def _sheet() -> mpl.RcParams:
    path = Path(__file__).with_name("paper.mplstyle")
    return mpl.rc_params_from_file(path, use_default_template=False)
