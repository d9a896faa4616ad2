"""Files that are either whole or not there, whatever kills the process."""

import io
import os
import secrets
from collections.abc import Callable
from pathlib import Path

import h5py

from .checksums import check_file, with_checksum


TEMPORARY = ".*.tmp"
"""The glob of the temporary files that a killed process leaves."""


def temporary_of(path: Path) -> Path:
    """A name beside a file that no other process gives to a temporary one.

    Processes of two containers may have one number, and one folder.
    """
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(8)}.tmp")


def write_bytes(path: Path, *parts: bytes | memoryview) -> None:
    """Writes a file through a temporary one beside it, fsync and rename.

    **Arguments:** `parts`: What the file is to hold, one after the other.

    **Raises:** `OSError` (a full disk, say), with the temporary file removed and what
    was at `path` before untouched.
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
        # The file that was asked for, not one that nobody has heard of.
        raise OSError(error.errno, error.strerror, str(path)) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_hdf5(
    path: Path, fill: Callable[[h5py.File], None], owner: str | None = None
) -> None:
    """Writes an HDF5 file as `write_bytes` does; `fill` gets the open file.

    A checksum comes after what HDF5 reads, see `icl.checksums`, as does the owner.

    The file is made in memory first: HDF5 itself may fail half way through a close.
    """
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        fill(file)
    write_bytes(path, *with_checksum(buffer.getbuffer(), owner))


def open_hdf5(path: str | os.PathLike, owner: str | None = None) -> h5py.File:
    """Opens an HDF5 file to read, after a look at its checksum.

    **Arguments:** `owner`: Whose file it must be, with a checksum; `None`: anybody's.

    **Raises:** `OSError` if it cannot be read or is damaged.
    """
    check_file(Path(path), owner)
    return h5py.File(path, "r")


def hdf5_kind(path: Path) -> str | None:
    """What an HDF5 file of ours says it is; `None` for another one, or another file."""
    try:
        with h5py.File(path, "r") as file:
            return file.attrs.get("kind")
    except OSError:
        return None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
