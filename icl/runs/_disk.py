"""Errors of the disk as one clear `ValueError`."""

import contextlib
import reprlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..text import read_json
from ._sums import read_text


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
