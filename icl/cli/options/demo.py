"""The options of `icl demo`."""

import dataclasses
from pathlib import Path
from typing import ClassVar

from . import CommandOptions, help_of


@dataclasses.dataclass(frozen=True)
class DemoOptions(CommandOptions):
    """Train the main model of the induction-head paper and draw its circuits.

    Training takes about a minute on two cores. If the folder holds a run, the command
    continues it; if the run is finished, the command only draws it again.
    """

    USAGE: ClassVar[str] = "[options]"
    EXAMPLE: ClassVar[str] = "icl demo --out runs/demo"

    out: Path = Path("runs/demo")
    """The run folder; the figures go there, too."""
    data: Path | None = None
    """An HDF5 file of classes, such as `icl data omniglot` writes. The default is
    synthetic classes, drawn from a seed."""
    path: str = ""
    """The name of the data set in that file, if it holds several."""
    sequences: int = 1_000_000
    """How many sequences to train on. No head forms in fewer than 200,000."""


show_help = help_of(DemoOptions, "demo")
