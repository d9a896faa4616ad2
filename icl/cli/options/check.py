"""The options of `icl check`."""

import dataclasses
from pathlib import Path
from typing import ClassVar

import tyro

from . import CommandOptions, help_of


@dataclasses.dataclass(frozen=True)
class CheckOptions(CommandOptions):
    """Check the files of runs against their checksums.

    Each file is one of these. whole: its checksum is right. damaged: it is not.
    missing: the config, the log or the list of checksums names it, and it is gone. no
    checksum: an older version wrote it. not understood: a config needs another version
    or a plug-in that is not installed. The exit status is 1 if a file is damaged,
    missing or not understood.
    """

    USAGE: ClassVar[str] = "RUN… [options]"
    EXAMPLE: ClassVar[str] = "icl check runs/demo"

    run: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders."""


show_help = help_of(CheckOptions, "check")
