"""The options of `icl sites`."""

import dataclasses
from pathlib import Path
from typing import ClassVar

import tyro

from . import CommandOptions, help_of


@dataclasses.dataclass(frozen=True)
class SitesOptions(CommandOptions):
    """List the sites of a run's model, which can be recorded and edited."""

    USAGE: ClassVar[str] = "RUN"
    EXAMPLE: ClassVar[str] = "icl sites runs/demo"

    run: tyro.conf.Positional[Path]
    """A run folder."""


show_help = help_of(SitesOptions, "sites")
