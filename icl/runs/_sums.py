"""The checksums of a run's text files, in one file that `sha256sum -c` reads too.

People read and copy those files, so they hold nothing but what they are about. A folder
with this file was made by a version that gives every file a checksum: of its binary
files, one that has none is refused.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from ..files import write_bytes


SUMS = "checksums.sha256"
"""The name of the file."""
LISTED = ("config.json", "meta.json", "data.sha256", "heads.json", "imported.json")
"""The files that are listed there, if they were written."""

# A comment for sha256sum: what makes a damaged line of this file known.
_FIRST = "# SHA-256 of the lines below: "


def is_sealed(folder: Path) -> bool:
    """Whether a run's files must have checksums: not if an older version made it."""
    return (folder / SUMS).exists()


def owner_of(file: Path) -> str | None:
    """What a binary file of a run is bound to; `None` if an older version made the run.

    That is the run's config and the file's name: a checkpoint of another run, or of
    another moment, is not taken for this one. Runs of one config have the same files.
    """
    folder = file.parent
    if folder.name in ("checkpoints", "resume"):
        folder = folder.parent
    if not is_sealed(folder):
        return None
    return f"{sums(folder).get('config.json')}/{file.relative_to(folder).as_posix()}"


def begin(folder: Path, contents: Mapping[str, str]) -> None:
    """Writes the first text files of a run, in order, after their checksums.

    A kill in between leaves checksums of files that are not there, which nobody reads.
    """
    _write_sums(folder, {name: _sum(text.encode()) for name, text in contents.items()})
    for name, text in contents.items():
        write_bytes(folder / name, text.encode())


def keep(folder: Path, name: str, text: str) -> None:
    """Writes a further text file of a run, after its checksum."""
    content = text.encode()
    if is_sealed(folder):
        _write_sums(folder, {**sums(folder), name: _sum(content)})
    write_bytes(folder / name, content)


def read_text(file: Path) -> str:
    """A text file, as it was written if its folder has a checksum of it.

    **Raises:** `ValueError` if it cannot be read or is another than was written.
    """
    try:
        content = file.read_bytes()
        text = content.decode()
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is no text: {error}") from None
    if file.name in LISTED and is_sealed(file.parent):
        if sums(file.parent).get(file.name) != _sum(content):
            raise ValueError(
                f"{file} is not as the run wrote it: it was edited or is damaged "
                f"({SUMS} beside it says so); to train with another config, edit a copy"
            )
    return text


def was_kept(file: Path) -> bool:
    """Whether a run has written a text file of these.

    **Raises:** `ValueError` if it has, and the file is gone.
    """
    folder = file.parent
    if file.is_file() or not is_sealed(folder) or file.name not in sums(folder):
        return file.is_file()
    # A kill may come between a checksum and its file, but not after the first save.
    if (folder / "log.h5").exists():
        raise ValueError(f"{file} is gone, which the run was made with")
    return False


def sums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each text file by its name.

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
        raise ValueError(f"{file} is damaged: its lines are not as they were written")
    return {row[2]: row[1] for row in rows if row}


def _write_sums(folder: Path, found: Mapping[str, str]) -> None:
    lines = "".join(f"{digest}  {name}\n" for name, digest in found.items())
    write_bytes(folder / SUMS, f"{_FIRST}{_sum(lines.encode())}\n{lines}".encode())


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
