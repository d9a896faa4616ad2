"""The manifest of a run: one file for the checksums of its text files.

`sha256sum -c` can read it too. People read and copy the text files, so these hold only
their own content. A binary file ends with its own checksum (`icl.checksums`): the log
is often replaced, and a kill could come between it and its line here. If a folder has a
manifest, a binary file without a checksum is refused.
"""

import hashlib
import re
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..files import write_bytes
from ..text import read_json


SUMS = "checksums.sha256"
"""The name of the file."""
LISTED = ("config.json", "meta.json", "data.sha256", "heads.json", "imported.json")
"""The files that are listed there, if the run has them."""

# A comment for sha256sum. It shows whether a line of this file is damaged.
_FIRST = "# SHA-256 of the lines below: "


def is_sealed(folder: Path) -> bool:
    """Whether a run's files need checksums; not if an older version made the run."""
    return (folder / SUMS).exists()


def owner_of(file: Path) -> str | None:
    """The owner of a run's binary file; `None` if an older version made the run.

    The owner is the run's config and the file's name. So a checkpoint of another run,
    or of another moment, is never taken for this one. Runs of one config have the same
    files.
    """
    folder = file.parent
    if folder.name in ("checkpoints", "resume"):
        folder = folder.parent
    if not is_sealed(folder):
        return None
    return f"{sums(folder).get('config.json')}/{file.relative_to(folder).as_posix()}"


def begin(folder: Path, contents: Mapping[str, str]) -> None:
    """Writes the first text files of a run, in order, after their checksums.

    A kill in between leaves checksums of missing files, which nobody reads.
    """
    _write_sums(folder, {name: _sum(text.encode()) for name, text in contents.items()})
    for name, text in contents.items():
        write_bytes(folder / name, text.encode())


def keep(folder: Path, name: str, text: str) -> None:
    """Writes one more text file of a run, after its checksum."""
    content = text.encode()
    if is_sealed(folder):
        _write_sums(folder, {**sums(folder), name: _sum(content)})
    write_bytes(folder / name, content)


def read_text(file: Path) -> str:
    """A text file; if its folder has a checksum of it, that is checked.

    **Raises:** `ValueError` if the file cannot be read or is not what was written.
    """
    try:
        content = file.read_bytes()
        text = content.decode()
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not text: {error}") from None
    if file.name in LISTED and is_sealed(file.parent):
        if sums(file.parent).get(file.name) != _sum(content):
            raise ValueError(
                f"{file} is not what the run wrote: it was edited or is damaged (see "
                f"{SUMS} beside it); to train with another config, edit a copy"
            )
    return text


def read_object(file: Path) -> dict[str, Any]:
    """The object in a JSON file.

    **Raises:** `ValueError` if it cannot be read, is not an object, or is not what the
    run in its folder wrote.
    """
    text = read_text(file)
    try:
        found = read_json(text)
    except ValueError as error:
        raise ValueError(f"{file} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{file} must hold an object, got {reprlib.repr(found)}")
    return found


def was_kept(file: Path) -> bool:
    """Whether a run has written a text file.

    **Raises:** `ValueError` if it has, but the file is gone.
    """
    folder = file.parent
    if file.is_file() or not is_sealed(folder) or file.name not in sums(folder):
        return file.is_file()
    # A kill may come between a checksum and its file, but not after the first save.
    if (folder / "log.h5").exists():
        raise ValueError(f"{file} is gone, but the run was made with it")
    return False


def sums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each text file, by name.

    **Raises:** `ValueError` if the file that lists them is damaged.
    """
    file = folder / SUMS
    try:
        first, _, rest = file.read_bytes().partition(b"\n")
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from None
    lines = rest.decode(errors="replace").splitlines()
    rows = [re.fullmatch(r"([0-9a-f]{64})  ([^/]+)", line) for line in lines]
    if first != (_FIRST + _sum(rest)).encode() or not all(rows):
        raise ValueError(f"{file} is damaged: its lines are not what was written")
    return {row[2]: row[1] for row in rows if row}


def _write_sums(folder: Path, found: Mapping[str, str]) -> None:
    lines = "".join(f"{digest}  {name}\n" for name, digest in found.items())
    write_bytes(folder / SUMS, f"{_FIRST}{_sum(lines.encode())}\n{lines}".encode())


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
