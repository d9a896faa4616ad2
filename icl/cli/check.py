"""`icl check`: are the files of runs as they were written?"""

import itertools
from collections.abc import Iterable
from pathlib import Path

from ..runs import file_states, FileState, is_run, Run, was_begun, WRONG
from ..text import aligned
from ..training import expected_files
from .options import parse
from .options.check import CheckOptions


def check(arguments: list[str]) -> int:
    """Runs the command; returns its exit status.

    **Raises:** `ValueError` for a folder that holds no run.
    """
    options = parse(CheckOptions, arguments, "check")
    if not options.run:
        raise ValueError("run: name one run folder or more")
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
        print("\n".join(f"  {line}" for line in aligned(_rows(states), "lll")))
    return int(wrong > 0)


def _states(path: Path) -> list[FileState]:
    """The states of a run's files, including those that its config and log name."""
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


def _rows(states: Iterable[FileState]) -> list[tuple[str, str, str]]:
    """A row for each file that is not whole, and one for each folder's other files."""
    rows = [("file", "state", "")]

    def kind(x: FileState) -> tuple[str, str, str]:
        folder, slash, _ = x.name.rpartition("/")
        bad = x.state in WRONG
        return x.state, folder + slash if slash and not bad else x.name, x.why

    for (state, name, why), group in itertools.groupby(states, kind):
        count = len([*group])
        rows.append((f"{name} ({count})" if name.endswith("/") else name, state, why))
    return rows
