"""`icl sites`: what can be recorded and edited."""

import dataclasses
from pathlib import Path

import tyro

import opto

from ..experiments import load
from ..text import aligned
from .options import parse


@dataclasses.dataclass(frozen=True)
class SitesOptions:
    """List what can be recorded and edited in a run's model."""

    run: tyro.conf.Positional[Path]
    """A run folder."""


def sites(arguments: list[str]) -> None:
    """Runs the command.

    **Raises:** `ValueError` if there is no run.
    """
    options = parse(SitesOptions, arguments, "sites")
    trained = load(options.run)
    table = opto.sites(trained.model, *trained.task.interface.structs)
    rows = [(name, str(s.dtype), s.dims.strip("[]")) for name, s in table.items()]
    print("\n".join(aligned([("site", "dtype", "axes"), *rows], "lll")))
