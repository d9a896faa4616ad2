"""The results of a command: a table and a figure in a folder, and notes on stderr."""

import csv
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TYPE_CHECKING

import numpy as np

from ..text import aligned


if TYPE_CHECKING:
    from matplotlib.figure import Figure


def note(command: str, text: str) -> None:
    """Prints a note of `icl <command>`."""
    print(f"icl {command}: note: {text}", file=sys.stderr)


def note_undefined(
    command: str, sets: Mapping[str, Mapping[str, Iterable[Any]]], kind: str
) -> None:
    """Notes once for each metric which values are undefined or too large.

    **Arguments:**

    - `sets`: By set and metric, the values: one for each of what `kind` names.
    - `kind`: In the plural, `sequences`, `checkpoints` or `runs`.
    """
    found: dict[str, list[str]] = {}
    infinite: set[str] = set()
    for name, metrics in sets.items():
        for metric, every in metrics.items():
            values = [*every]
            wrong = [not np.isfinite(value).all() for value in values]
            if any(wrong):
                count = f"{name} ({sum(wrong)} of {len(wrong)} {kind})"
                found.setdefault(metric, []).append(count)
            if any(np.isinf(value).any() for value in values):
                infinite.add(metric)
    for metric, where in found.items():
        state = "infinite or undefined" if metric in infinite else "undefined"
        note(command, f"{metric} is {state} in {', '.join(where)}")


def check_folder(folder: Path) -> None:
    """Raises `ValueError` unless files can be made there; it need not exist."""
    from ..files import check_writable

    if folder.exists() and not folder.is_dir():
        raise ValueError(f"out: {folder} is a file; name a folder")
    check_writable(folder)


def free_folder(folder: Path, name: str, columns: Sequence[str]) -> Path:
    """The folder, which need not exist. Earlier results in it may be overwritten.

    That is a table, `NAME.csv`, of a first column `set` and of these last columns.

    **Raises:** `ValueError` if another file is in the way, or no file can be made.
    """
    check_folder(folder)
    names = _columns(folder / f"{name}.csv")
    if names[:1] == ["set"] and names[-len(columns) :] == [*columns]:
        return folder
    for file in _files(folder, name):
        if file.exists():
            raise ValueError(f"out: {file} is in the way; name another folder")
    return folder


def write_results(
    folder: Path, name: str, rows: Iterable[Sequence[Any]], figure: "Figure"
) -> str:
    """Writes the table, header first, and the figure; returns a text that says where.

    **Raises:** `OSError` for what cannot be written.
    """
    from .. import plots
    from ..files import write_bytes

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    folder.mkdir(parents=True, exist_ok=True)
    table, *pictures = _files(folder, name)
    for picture in pictures:
        plots.save(figure, picture)
    # Last: it marks the others as results that may be overwritten.
    write_bytes(table, text.getvalue().encode())
    return f"Numbers: {table}\nFigure:  {', '.join(map(str, pictures))}"


def indented(rows: Sequence[Sequence[str]]) -> str:
    """A table for a terminal: names to the left, numbers to the right."""
    align = "l" + "r" * (len(rows[0]) - 1)
    return "".join(f"  {line}\n" for line in aligned(rows, align))


def _files(folder: Path, name: str) -> list[Path]:
    return [folder / f"{name}.{suffix}" for suffix in ("csv", "png", "pdf")]


def _columns(file: Path) -> list[str]:
    """The header of a table; empty if the file is not a table."""
    try:
        with open(file, newline="") as stream:
            return next(csv.reader(stream), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        return []
