"""`icl import`: turn another codebase's run into a run folder."""

import dataclasses
from pathlib import Path
from typing import ClassVar

import tyro

from .options import CommandOptions, parse


@dataclasses.dataclass(frozen=True)
class ImportOptions(CommandOptions):
    """Turn a run of icl-dynamics (Singh et al.) into a run folder.

    All commands that read a run can then read it. The command prints what differs from
    the original run.
    """

    EXAMPLE: ClassVar[str] = "icl import OLD_RUN --out runs/old"

    folder: tyro.conf.Positional[Path]
    """The folder of the original run, with config.json, checkpoints/ and log.h5."""
    out: Path
    """The run folder to make; it must not exist yet."""
    data: Path | None = None
    """An HDF5 file of classes. The default is the path in the run's config."""


def import_run(arguments: list[str]) -> None:
    """Runs the command."""
    options = parse(ImportOptions, arguments, "import")
    from ..compat import icl_dynamics
    from ..runs import Run

    notes = icl_dynamics.import_run(options.folder, options.out, options.data)
    run = Run(options.out)
    kept = f"{len(run.checkpoints)} checkpoints, {len(run.log.events)} evaluations"
    print(f"{options.out}: {kept}")
    for note in notes:
        print(f"note: {note}")
