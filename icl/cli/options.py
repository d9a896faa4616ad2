"""Command-line options from dataclasses, with errors of one line.

What several commands take is here too: a run, edits, evaluation sets.
"""

import contextlib
import dataclasses
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tyro

import opto
from opto.toolkit import Observed, with_effect

from ..batches import example_of
from ..edits.grafts import check_grafts, read_edits
from ..experiments import Trained


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
    _check_not_empty(arguments)
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


def _check_not_empty(arguments: Sequence[str]) -> None:
    """Raises `ValueError` for an empty value, such as that of a variable that is unset.

    As a path it would mean the working directory, and as a text the default.
    """
    before = ""
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if not argument or (option.startswith("--") and equals and not value):
            named = option or (before if before.startswith("--") else "an argument")
            raise ValueError(f"{named} is empty: give it a value, or leave it out")
        before = argument


def _essence(box: str) -> str:
    """The first paragraph of a tyro error, and what it thinks was meant."""
    lines = box.splitlines()
    # Where the terminal's encoding has no boxes, the title is a line like the others.
    inside = [line for line in lines if line.startswith("│")] or lines[1:]
    texts = [line.strip(" │") for line in inside if line.strip("│─- ")]
    if not texts:
        return " ".join(box.split())
    if texts[0].startswith("Missing from") and len(texts) > 1:
        texts[0] = f"{' '.join(texts[1].split())} is missing"
    meant = [i for i, line in enumerate(texts) if line.startswith("Perhaps you meant")]
    hint = f"; did you mean {texts[meant[0] + 1]}?" if meant else ""
    if "Missing value" in texts[0]:
        hint = "; write a name that begins with - as ./-name"
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


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Which run, under which edits."""

    run: tyro.conf.Positional[Path]
    """A run folder."""
    edit: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An edit in force, besides those of training, such as
    "Zero('blocks.1.attn.z', head=3)"; may be repeated."""
    training_edits: bool = True
    """Whether the edits that the run was trained under are in force too."""

    @property
    def as_trained(self) -> bool:
        """Whether the edits of training are in force, and no others."""
        return self.training_edits and not self.edit

    def in_force(
        self, trained: Trained, record: str | None = None
    ) -> tuple[opto.AbstractEdit, ...]:
        """The edits that are in force: those of training first.

        Those of training that the others take all effect from are left out.

        **Arguments:** `record`: The sites that are looked at, besides the outputs.

        **Raises:** `ValueError` for a text that is no edit, and for a graft of a model
        that does not take the task's examples.
        """
        own = trained.edits if self.training_edits else ()
        edits = read_edits(self.edit)
        check_grafts(edits, trained.task)
        if own and edits:
            example = example_of(trained.task)
            table = opto.sites(trained.task.forward, trained.model, example)
            recorded = [s.name for s in table.match(record)] if record else []
            own = with_effect(own, edits, table, Observed.too(recorded))
        return (*own, *edits)


@dataclasses.dataclass(frozen=True)
class SetOptions(RunOptions):
    """Which model, under which edits, on which sequences."""

    checkpoint: int = -1
    """Sequences seen at the checkpoint; -1 is the last."""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An evaluation set; of exemplar-label sequences also dense, every label pair and
    order of 100 pairs of classes, or dense:N, of N. May be repeated; the default is all
    evaluation sets."""
