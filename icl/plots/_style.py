"""The one style of all figures: colour-blind safe, readable in print."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .._atomic import write_bytes


# Okabe & Ito 2008, distinguishable under all common colour blindness; black first.
COLOURS = (
    "#000000",
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#8C8C00",
)

_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=COLOURS),
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "savefig.dpi": 200,
}


@contextlib.contextmanager
def style() -> Iterator[None]:
    """The style sheet, for the time of drawing one figure."""
    with mpl.rc_context(_STYLE):
        yield


def figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that belongs to no window."""
    return Figure(figsize=(width, height), layout="constrained")


def sequences_axis(ax: Axes) -> None:
    """Labels the horizontal axis as sequences seen, in thousands."""
    ax.set_xlabel("sequences seen (thousands)")
    ax.set_xlim(left=0)


def save(figure: Figure, path: Path) -> Path:
    """Writes a figure in the format of its suffix (png, pdf, svg), whole or not."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format=path.suffix.lstrip("."))
    write_bytes(path, buffer.getbuffer())
    return path
