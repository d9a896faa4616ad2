"""The options of `icl plot`."""

import dataclasses
from pathlib import Path
from typing import ClassVar, Literal

import tyro

from . import help_of, SubjectOptions
from ._sources import figure_kinds


@dataclasses.dataclass(frozen=True)
class PlotOptions(SubjectOptions):
    """Draw figures of a run, each to a file, with its numbers in a file beside it.

    A file's name is the kind of figure, followed by the options that differ from the
    default.
    """

    USAGE: ClassVar[str] = "RUN KIND… [options]"
    EXAMPLE: ClassVar[str] = "icl plot runs/demo learning maps"

    kinds: tyro.conf.Positional[tuple[str, ...]] = ()
    """The kinds of figure to draw, from the list above; or all."""
    out: Path | None = None
    """The folder for the figures. The default is figures in the run's folder."""
    format: Literal["png", "pdf", "svg"] = "png"
    """The format of the figures; pdf and svg are for print."""
    numbers: Literal["h5", "csv"] = "h5"
    """The format of the numbers: an HDF5 file, or a table."""
    metric: str = "loss"
    """The metric for the kinds metric and similarity, such as accuracy or
    in_context_loss."""
    by: str = ""
    """How the kind metric groups sequences with labels: by position (of the answer; the
    default), label, labels (those in the context), class or similarity; with dense also
    by class-pair, label-pair, …"""
    checkpoint: int = -1
    """The checkpoint for the kind maps, as the number of sequences seen; -1 is the
    last."""


_LISTED = "\n\n".join(f"- {name}: {about}" for name, about in figure_kinds().items())
PlotOptions.__doc__ = f"{PlotOptions.__doc__}\n\n{_LISTED}"

show_help = help_of(PlotOptions, "plot")
