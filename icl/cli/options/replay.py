"""The options of `icl replay`."""

import dataclasses
from pathlib import Path
from typing import ClassVar

import tyro

from . import help_of, RunOptions


@dataclasses.dataclass(frozen=True)
class ReplayOptions(RunOptions):
    """Take measures at a run's checkpoints and write them to a file.

    The file has `sequences`, the sequences seen at each checkpoint, and an array
    `measures/NAME` for each measure, whose attribute `axes` names its axes.
    """

    USAGE: ClassVar[str] = "RUN --measure NAME [options]"
    EXAMPLE: ClassVar[str] = "icl replay runs/demo --measure induction_strength"

    measure: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A measure, such as induction_strength, "induction_strength(layer=1)" or loss; may
    be repeated. Without one, the measures that there are are listed."""
    data: str = "train"
    """An evaluation set of the run; of exemplar-label sequences also dense, every label
    pair and order of 100 pairs of classes, or dense:N, of N."""
    checkpoint: tyro.conf.UseAppendAction[tuple[int, ...]] = ()
    """Sequences seen at a checkpoint, -1 for the last; may be repeated. The default is
    all of them."""
    out: Path | None = None
    """The file to write, .h5; the default is replay.h5 in the run's folder."""


show_help = help_of(ReplayOptions, "replay")
