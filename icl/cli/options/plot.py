"""The options of `icl plot`."""

import dataclasses
from pathlib import Path
from typing import ClassVar, Literal

import tyro

from . import help_of, SubjectOptions
from ._sources import figure_kinds


@dataclasses.dataclass(frozen=True)
class PlotOptions(SubjectOptions):
    """Draw figures of a run; each is a file, with its numbers in another beside it.

    A file is named after the kind and, where they are not the default, the options that
    say what is drawn.
    """

    USAGE: ClassVar[str] = "RUN KIND… [options]"
    EXAMPLE: ClassVar[str] = "icl plot runs/demo learning maps"

    kinds: tyro.conf.Positional[tuple[str, ...]] = ()
    """What to draw, one or several of the above; all for everything."""
    out: Path | None = None
    """The folder of the figures, made if need be; the default is the run's figures."""
    format: Literal["png", "pdf", "svg"] = "png"
    """Of the figures; pdf and svg for print."""
    numbers: Literal["h5", "csv"] = "h5"
    """The format of the numbers: HDF5, or a tidy table."""
    metric: str = "loss"
    """What metric and similarity draw, such as accuracy or in_context_loss."""
    by: str = ""
    """What metric groups sequences by, where these have labels: position (of the
    answer, the default), label, labels (those in the context), class, similarity; on
    dense also class-pair, label-pair, …"""
    checkpoint: int = -1
    """Sequences seen at the checkpoint that maps draws; -1 is the last."""


_LISTED = "\n\n".join(f"- {name}: {about}" for name, about in figure_kinds().items())
PlotOptions.__doc__ = f"{PlotOptions.__doc__}\n\n{_LISTED}"

show_help = help_of(PlotOptions, "plot")
