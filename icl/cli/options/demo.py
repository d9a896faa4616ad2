"""The options of `icl demo`."""

import dataclasses
from pathlib import Path
from typing import ClassVar

from . import CommandOptions, help_of


@dataclasses.dataclass(frozen=True)
class DemoOptions(CommandOptions):
    """Train the induction-head paper's main model and draw what formed in it.

    About a minute of training on two cores. A run that is there is continued, and one
    that is finished only drawn again.
    """

    USAGE: ClassVar[str] = "[options]"
    EXAMPLE: ClassVar[str] = "icl demo --out runs/demo"

    out: Path = Path("runs/demo")
    """Where the run folder and the figures go."""
    data: Path | None = None
    """An HDF5 file of classes, such as `icl data omniglot` writes; the default is
    synthetic classes drawn from a seed."""
    path: str = ""
    """The data set in that file, when it holds several."""


show_help = help_of(DemoOptions, "demo")
