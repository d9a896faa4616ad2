"""Files that are either whole or not there, whatever kills the process."""

import io
import os
from collections.abc import Callable
from pathlib import Path

import h5py


TEMPORARY = ".*.tmp"
"""The glob of the temporary files that a killed process leaves."""


def write_bytes(path: Path, content: bytes | memoryview) -> None:
    """Writes a file through a temporary one beside it, fsync and rename.

    **Raises:** `OSError` (a full disk, say), with the temporary file removed and what
    was at `path` before untouched.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
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


def write_hdf5(path: Path, fill: Callable[[h5py.File], None]) -> None:
    """Writes an HDF5 file as `write_bytes` does; `fill` gets the open file.

    The file is made in memory first: HDF5 itself may fail half way through a close.
    """
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        fill(file)
    write_bytes(path, buffer.getbuffer())


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
