"""Files that are whole or absent, even if the process is killed."""

import contextlib
import io
import os
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path

import h5py

from .checksums import checked, with_checksum


TEMPORARY = ".*.tmp"
"""The glob of the temporary files that a killed process leaves behind."""


_HELD = (
    "another program has it open; close it there, or set HDF5_USE_FILE_LOCKING=FALSE "
    "to read what is there so far"
)


def temporary_of(path: Path) -> Path:
    """A name beside a file that no other process uses for a temporary file.

    A process id is not enough: two containers may share a folder and use one id.
    """
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(8)}.tmp")


def write_bytes(path: Path, *parts: bytes | memoryview) -> None:
    """Writes a file: a temporary file beside it, then fsync and rename.

    **Arguments:** `parts`: The content, in pieces.

    **Raises:** `OSError`, for example if the disk is full. The temporary file is then
    removed and the old file at `path` is untouched.
    """
    path = Path(path)
    temporary = temporary_of(path)
    try:
        with open(temporary, "xb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        # Name the file that the caller asked for, not the temporary one.
        raise OSError(error.errno, error.strerror, str(path)) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def check_writable(folder: Path) -> None:
    """Makes a file in a folder, and removes it; called before work that takes long.

    **Raises:** `ValueError` if that fails. A folder that does not exist is made and
        removed, too.
    """
    made: list[Path] = []
    try:
        for part in reversed([folder, *folder.parents]):
            if not part.exists():
                part.mkdir()
                made.append(part)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"out: cannot write in {folder}: {reason}") from None
    finally:
        for part in reversed(made):
            with contextlib.suppress(OSError):  # Another process uses it by now.
                part.rmdir()


def check_page(argument: str, path: Path, mark: str) -> None:
    """Raises `ValueError` unless a page may be written there.

    **Arguments:** `mark`: What pages of this kind have near their start. A new one may
        replace them, and no other file.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"{argument} must be a file in a folder that exists: {path}")
    if path.suffix != ".html":
        raise ValueError(f"{argument} must end in .html, got {path}")
    if path.exists() and mark.encode() not in path.read_bytes()[:1000]:
        way = "was not written by this command; name another file"
        raise ValueError(f"{argument}: {path} exists and {way}")
    check_writable(path.parent)


def write_hdf5(
    path: Path, fill: Callable[[h5py.File], None], owner: str | None = None
) -> None:
    """Writes an HDF5 file as `write_bytes` does; `fill` gets the open file.

    The owner and a checksum come after the part that HDF5 reads, see `icl.checksums`.

    The file is made in memory first, because HDF5 itself may fail in the middle of a
    close.
    """
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        fill(file)
    write_bytes(path, *with_checksum(buffer.getbuffer(), owner))


def open_hdf5(path: str | os.PathLike, owner: str | None = None) -> h5py.File:
    """Opens an HDF5 file for reading, after a check of its checksum.

    **Arguments:** `owner`: Whose file it must be. The file then needs a checksum.
        `None` accepts any file.

    **Raises:** `OSError` if the file cannot be read or is damaged, or another program
        has it open for writing.
    """
    checked(Path(path).read_bytes(), owner)
    try:
        return h5py.File(path, "r")
    except BlockingIOError as error:
        raise OSError(error.errno, _HELD, str(path)) from None


def hdf5_kind(path: Path) -> str | None:
    """The kind that an HDF5 file of ours gives; `None` for any other file.

    **Raises:** `ValueError` if another program has it open for writing.
    """
    try:
        with h5py.File(path, "r") as file:
            return file.attrs.get("kind")
    except BlockingIOError:
        raise ValueError(f"cannot read {path}: {_HELD}") from None
    except OSError:
        return None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
