"""The options of `icl import`."""

import dataclasses
from pathlib import Path
from typing import ClassVar

import tyro

from . import CommandOptions, help_of


@dataclasses.dataclass(frozen=True)
class ImportOptions(CommandOptions):
    """Turn a run of icl-dynamics (Singh et al.) into a run folder.

    All commands that read a run can then read it. The command prints what differs from
    the original run.
    """

    USAGE: ClassVar[str] = "FOLDER --out RUN [options]"
    EXAMPLE: ClassVar[str] = "icl import OLD_RUN --out runs/old"

    folder: tyro.conf.Positional[Path]
    """The folder of the original run, with config.json, checkpoints/ and log.h5."""
    out: Path
    """The run folder to make; an existing one is refused."""
    data: Path | None = None
    """The file of classes. The default is the path in the run's config."""


show_help = help_of(ImportOptions, "import")
