"""`icl import`: turn another codebase's run into a run folder."""

from ..compat import icl_dynamics
from ..runs import Run
from .options import parse
from .options.import_run import ImportOptions


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
