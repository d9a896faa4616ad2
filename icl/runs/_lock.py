"""The lock of a folder: only one process writes to it."""

import contextlib
import fcntl
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from ._disk import disk


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
