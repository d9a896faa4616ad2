"""The options of `icl report`."""

import dataclasses
from pathlib import Path
from typing import ClassVar

from . import help_of, SubjectOptions


@dataclasses.dataclass(frozen=True)
class ReportOptions(SubjectOptions):
    """Write an HTML page about a run. It needs no network and no other file.

    It shows the config, learning curves, heads over training, and attention patterns at
    checkpoints.
    """

    USAGE: ClassVar[str] = "RUN [options]"
    EXAMPLE: ClassVar[str] = "icl report runs/demo"

    out: Path | None = None
    """The file; the default is report.html in the run's folder."""


show_help = help_of(ReportOptions, "report")
