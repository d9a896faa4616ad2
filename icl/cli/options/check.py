"""The options of `icl check`."""

import dataclasses
from pathlib import Path
from typing import ClassVar

import tyro

from . import CommandOptions, help_of


@dataclasses.dataclass(frozen=True)
class CheckOptions(CommandOptions):
    """Say whether each file of some runs is whole, by its checksum.

    A file is whole, damaged, missing (the config, the log or the list of checksums has
    it), or has no checksum, as those of older versions; a config may be of a version
    or a plug-in that is not here, and is not understood. The status is 1 if something
    is damaged, missing or not understood.
    """

    USAGE: ClassVar[str] = "RUN… [options]"
    EXAMPLE: ClassVar[str] = "icl check runs/demo"

    run: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders."""


show_help = help_of(CheckOptions, "check")
