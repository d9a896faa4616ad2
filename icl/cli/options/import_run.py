"""The options of `icl import`."""

import dataclasses
from pathlib import Path
from typing import ClassVar

import tyro

from . import CommandOptions, help_of


@dataclasses.dataclass(frozen=True)
class ImportOptions(CommandOptions):
    """Turn a run of icl-dynamics (Singh et al.) into a run folder.

    Every command that reads a run works on it then. What is not quite as it was there
    is printed.
    """

    USAGE: ClassVar[str] = "FOLDER --out RUN [options]"
    EXAMPLE: ClassVar[str] = "icl import OLD_RUN --out runs/old"

    folder: tyro.conf.Positional[Path]
    """The run: config.json, checkpoints/ and log.h5."""
    out: Path
    """The run folder to make; an existing one is refused."""
    data: Path | None = None
    """The file of classes, if it is not where the run's config says."""


show_help = help_of(ImportOptions, "import")
