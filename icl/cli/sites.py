"""`icl sites`: what can be recorded and edited."""

import dataclasses
from pathlib import Path
from typing import ClassVar

import tyro

import opto

from ..text import aligned
from .options import CommandOptions, parse


@dataclasses.dataclass(frozen=True)
class SitesOptions(CommandOptions):
    """List the sites of a run's model, which can be recorded and edited."""

    EXAMPLE: ClassVar[str] = "icl sites runs/demo"

    run: tyro.conf.Positional[Path]
    """A run folder."""


def sites(arguments: list[str]) -> None:
    """Runs the command."""
    options = parse(SitesOptions, arguments, "sites")
    from ..experiments import load

    trained = load(options.run)
    table = opto.sites(trained.model, *trained.task.interface.structs)
    rows = [(name, str(s.dtype), s.dims.strip("[]")) for name, s in table.items()]
    print("\n".join(aligned([("site", "dtype", "axes"), *rows], "lll")))
