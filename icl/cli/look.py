"""`icl look`: a run in a browser."""

import dataclasses
from pathlib import Path
from typing import ClassVar

from .options import parse, SubjectOptions
from .report import subject_of


@dataclasses.dataclass(frozen=True)
class LookOptions(SubjectOptions):
    """Look at a run in a browser: attention, edits, and a slider over its checkpoints.

    The command prints an address of this machine, and answers until Ctrl-C. A click on
    a head ablates it. Edits stay in force while the slider moves.
    """

    EXAMPLE: ClassVar[str] = "icl look runs/demo"

    beside: Path | None = None
    """A second run, shown beside the first."""
    port: int = 0
    """The port of the address; 0 takes a free one."""
    export: Path | None = None
    """Write a page that needs no server to this .html file, and stop. It has no edits
    but those given here."""


def look(arguments: list[str]) -> None:
    """Runs the command."""
    options = parse(LookOptions, arguments, "look")
    from ..look import export, Server, Side

    if not 0 <= options.port < 2**16:
        raise ValueError(f"--port is from 0 to 65535, got {options.port}")
    runs = [options.run, *([options.beside] if options.beside else [])]
    sides = [Side(subject_of(dataclasses.replace(options, run=run))) for run in runs]
    if options.export is not None:
        print(export(sides, options.export))
        return
    with Server(sides, options.port) as server:
        print(f"{server.address}\nCtrl-C ends it.", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
