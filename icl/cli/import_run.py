"""`icl import`: another codebase's run as one of ours."""

import dataclasses
from pathlib import Path

import tyro

from ..compat import icl_dynamics
from ..runs import Run
from .options import parse


@dataclasses.dataclass(frozen=True)
class ImportOptions:
    """Turn a run of icl-dynamics (Singh et al.) into a run folder.

    Every command that reads a run works on it then. What is not quite as it was there
    is printed.
    """

    folder: tyro.conf.Positional[Path]
    """The run: config.json, checkpoints/ and log.h5."""
    out: Path
    """The run folder to make; an existing one is refused."""
    data: Path | None = None
    """The file of classes, if it is not where the run's config says."""


def import_run(arguments: list[str]) -> None:
    """Runs the command.

    **Raises:** `ValueError` for a run that cannot be read, or a folder in the way.
    """
    options = parse(ImportOptions, arguments, "import")
    notes = icl_dynamics.import_run(options.folder, options.out, options.data)
    run = Run(options.out)
    kept = f"{len(run.checkpoints)} checkpoints, {len(run.log.events)} evaluations"
    print(f"{options.out}: {kept}")
    for note in notes:
        print(f"note: {note}")
