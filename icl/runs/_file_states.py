"""The state of each file of a run, from its checksum."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import h5py
import numpy as np

from ..checksums import checked, is_sealed, LISTED, owner_of, read_text, SUMS, sums
from ..text import read_json


State = Literal["whole", "damaged", "no checksum", "missing", "not understood"]
WRONG: tuple[State, ...] = ("damaged", "missing", "not understood")
"""The states in which a file is not as it should be."""


@dataclasses.dataclass(frozen=True)
class FileState:
    """A file of a run and its state."""

    name: str
    """Its name within the folder."""
    state: State
    """`no checksum` means a file of an older version, which is readable."""
    why: str = ""
    """What is wrong with a damaged file."""


def file_states(folder: Path, expected: Iterable[str] = ()) -> list[FileState]:
    """The state of each file that a run has written, in order.

    **Arguments:** `expected`: The names of more files that must be there.
    """
    listed: list[str] = []
    if is_sealed(folder):
        try:
            listed = [*sums(folder)]
        except ValueError:
            pass  # The row of the list itself says so.
    there = [name for name in (SUMS, *LISTED) if (folder / name).is_file()]
    there += [name for name in ("log.h5", "eval_data.h5") if (folder / name).is_file()]
    for part in ("checkpoints", "resume"):
        files = sorted((folder / part).glob("*.eqx"))
        there += [file.relative_to(folder).as_posix() for file in files]
    # Replays and the data of figures.
    drawn = sorted(folder.glob("*/*.h5"))
    there += [file.relative_to(folder).as_posix() for file in drawn]
    missing = [name for name in (*listed, *expected) if name not in there]
    gone = [FileState(name, "missing") for name in dict.fromkeys(missing)]
    found = (_state(folder, name) for name in there)
    return [state for state in found if state is not None] + gone


def _state(folder: Path, name: str) -> FileState | None:
    """The state of one file; `None` if the run has just deleted it."""
    file = folder / name
    try:
        if name == SUMS:
            sums(folder)
            return FileState(name, "whole")
        if name in LISTED:
            text = read_text(file)
            if file.suffix == ".json":
                read_json(text)
            has = is_sealed(folder)
        else:
            part = Path(name).parts[0]
            own = part in ("checkpoints", "resume") or part == name
            has = checked(file.read_bytes(), _owner(file) if own else None).sealed
            if not has:
                _read_through(file)
    except FileNotFoundError:
        return None
    except (OSError, EOFError, RuntimeError, ValueError) as error:
        why = " ".join(str(getattr(error, "strerror", None) or error).split())
        return FileState(name, "damaged", why.removeprefix(f"{file} "))
    return FileState(name, "whole" if has else "no checksum")


def _owner(file: Path) -> str | None:
    """Whose file it must be, if the list of checksums is whole."""
    try:
        return owner_of(file)
    except ValueError:
        return None  # That list has its own row.


def _read_dataset(name: str, x: h5py.Dataset | h5py.Group) -> None:
    if isinstance(x, h5py.Dataset):
        x[()]


def _read_through(file: Path) -> None:
    """Reads all arrays of a file without a checksum; raises if the file is cut."""
    if file.suffix == ".h5":
        with h5py.File(file, "r") as opened:
            opened.visititems(_read_dataset)
        return
    size = file.stat().st_size
    with open(file, "rb") as stream:
        while stream.tell() < size:
            np.load(stream)
