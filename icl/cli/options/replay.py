"""The options of `icl replay`."""

import dataclasses
from pathlib import Path
from typing import ClassVar

import tyro

from . import help_of, RunOptions


@dataclasses.dataclass(frozen=True)
class ReplayOptions(RunOptions):
    """Compute measures at a run's checkpoints and write them to a file.

    In the file, `sequences` is the number of sequences seen at each checkpoint. Each
    measure is an array `measures/NAME`; its attribute `axes` names the axes.
    """

    USAGE: ClassVar[str] = "RUN --measure NAME [options]"
    EXAMPLE: ClassVar[str] = "icl replay runs/demo --measure induction_strength"

    measure: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A measure, such as induction_strength, "induction_strength(layer=1)" or loss; may
    be repeated. Without this option, the command lists the measures."""
    data: str = "train"
    """An evaluation set of the run. Tasks with exemplar-label sequences also have dense
    (every label pair and order of 100 pairs of classes) and dense:N (of N pairs)."""
    checkpoint: tyro.conf.UseAppendAction[tuple[int, ...]] = ()
    """A checkpoint, as the number of sequences seen; -1 is the last. May be repeated;
    the default is all checkpoints."""
    out: Path | None = None
    """The .h5 file to write. The default is replay.h5 in the run's folder."""


show_help = help_of(ReplayOptions, "replay")
