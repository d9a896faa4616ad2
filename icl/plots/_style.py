"""The one style of all figures, and empty figures in it."""

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes

from ._drawn import Drawn, DrawnFigure, PLAIN


@contextlib.contextmanager
def style() -> Iterator[None]:
    """The style sheet `paper.mplstyle`, for the time of a `with` block.

    Text is drawn as it stands, so that a `$` in the name of a run or of a set is one.
    """
    with mpl.rc_context({**_sheet(), **PLAIN}):
        yield


def colours() -> list[str]:
    """The colours of the style sheet, in order."""
    return _sheet()["axes.prop_cycle"].by_key()["color"]


# After the colours, which are eight, the next eight lines are dashed, and so on.
LINES = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)))


def line_style(index: int) -> dict:
    """Colour and dashes of the line of that number; the first 32 differ."""
    every = colours()
    return {
        "color": every[index % len(every)],
        "ls": LINES[index // len(every) % len(LINES)],
    }


def figure(width: float, height: float, drawn: Drawn | None = None) -> DrawnFigure:
    """An empty figure, in inches, that belongs to no window.

    **Arguments:**

    - `drawn`: What it is going to show.
    """
    return DrawnFigure(drawn, figsize=(width, height), layout="constrained")


def unit_of(largest: float) -> tuple[float, str]:
    """What sequences seen are counted in on an axis that goes so far, and its label."""
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
