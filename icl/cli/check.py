"""`icl check`: are the files of runs as they were written?"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar, TYPE_CHECKING

import tyro

from ..text import aligned
from .options import CommandOptions, parse


if TYPE_CHECKING:
    from ..runs import FileState


@dataclasses.dataclass(frozen=True)
class CheckOptions(CommandOptions):
    """Check the files of runs against their checksums.

    Each file is one of these. whole: its checksum is right. damaged: it is not.
    missing: the config, the log or the list of checksums names it, and it is gone. no
    checksum: an older version wrote it. not understood: a config needs another version
    or a plug-in that is not installed. The exit status is 1 if a file is damaged,
    missing or not understood.
    """

    EXAMPLE: ClassVar[str] = "icl check runs/demo"

    run: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders."""


def check(arguments: list[str]) -> int:
    """Runs the command; returns its exit status."""
    options = parse(CheckOptions, arguments, "check")
    if not options.run:
        raise ValueError("run: name one run folder or more")
    from ..runs import Run, was_begun, WRONG

    for path in options.run:
        if not was_begun(path):
            Run(path)  # It says what is wrong.
    wrong = 0
    for path in options.run:
        states = _states(path)
        bad = [x for x in states if x.state in WRONG]
        wrong += len(bad)
        verdict = f"{len(bad)} of {len(states)} files are not as they should be"
        print(f"{path}: {verdict if bad else f'{len(states)} files, none damaged'}")
        rows = [("file", "state", ""), *_rows(states, WRONG)]
        print("\n".join(f"  {line}" for line in aligned(rows, "lll")))
    return int(wrong > 0)


def _states(path: Path) -> "list[FileState]":
    """The states of a run's files, including those that its config and log name."""
    from ..runs import file_states, FileState, is_run, Run
    from ..training import expected_files

    missing = [] if is_run(path) else ["config.json"]
    try:
        expected = [] if missing else expected_files(Run(path))
    except ValueError as error:
        states = file_states(path)
        if all(x.state != "damaged" for x in states):
            states = [x for x in states if x.name != "config.json"]
            states.append(FileState("config.json", "not understood", str(error)))
        return states
    return file_states(path, [*missing, *expected])


def _rows(
    states: "Iterable[FileState]", wrong: Iterable[str]
) -> Iterator[tuple[str, str, str]]:
    """A row for each file that is not whole, and one for each folder's other files."""

    def kind(x: "FileState") -> tuple[str, str, str]:
        folder, slash, _ = x.name.rpartition("/")
        whole = slash and x.state not in wrong
        return x.state, folder + slash if whole else x.name, x.why

    for (state, name, why), group in itertools.groupby(states, kind):
        count = len([*group])
        yield (f"{name} ({count})" if name.endswith("/") else name, state, why)
