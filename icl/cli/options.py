"""Command-line options from dataclasses, with errors of one line."""

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from typing import Any

import tyro


def parse(
    options: type, arguments: Sequence[str], command: str, program: str = "icl"
) -> Any:
    """Reads a command's options with tyro.

    **Arguments:**

    - `options`: A dataclass whose fields are the options.
    - `program`, `command`: How the command is called in its help.

    **Raises:** `ValueError`, in one line, for what cannot be read; `SystemExit` after
    printing a help text that was asked for.
    """
    captured = io.StringIO()
    try:
        # Its error boxes follow the terminal's width; one line is wanted here.
        with contextlib.redirect_stderr(captured), _columns("10000", arguments):
            return tyro.cli(
                options,
                args=arguments,
                prog=f"{program} {command}",
                config=(tyro.conf.AvoidSubcommands,),
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise ValueError(_essence(captured.getvalue())) from None


def _essence(box: str) -> str:
    """The first paragraph of a tyro error, and what it thinks was meant."""
    inside = [line.strip(" │") for line in box.splitlines() if line.startswith("│")]
    texts = [line for line in inside if line.strip("─ ")]
    if not texts:
        return " ".join(box.split())
    if texts[0].startswith("Missing from") and len(texts) > 1:
        texts[0] = f"{' '.join(texts[1].split())} is missing"
    meant = [i for i, line in enumerate(texts) if line.startswith("Perhaps you meant")]
    hint = f"; did you mean {texts[meant[0] + 1]}?" if meant else ""
    return texts[0].rstrip(".") + hint


@contextlib.contextmanager
def _columns(width: str, arguments: Sequence[str]) -> Iterator[None]:
    if {"-h", "--help"} & set(arguments):
        yield
        return
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = width
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
