"""Writing to a run folder: errors of the disk, and a lock against other processes."""

import contextlib
import fcntl
import os
import platform
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def disk(folder: Path) -> Iterator[None]:
    """Turns an error while writing to a run folder into a `ValueError`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        began = (folder / "config.json").exists()
        hint = "; everything saved before is intact, and the run resumes from there"
        raise ValueError(
            f"cannot write to {folder}: {reason}{hint if began else ''}"
        ) from error


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Holds the folder; the kernel releases it when the process ends in any way."""
    with disk(folder):
        file = open(folder / ".lock", "a+b", buffering=0)
    with file:
        with disk(folder):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                owner = file.read().decode() or "another process"
                raise ValueError(f"{folder} is being written by {owner}") from None
            file.truncate(0)
            file.write(f"process {os.getpid()} on {platform.node()}".encode())
        yield
