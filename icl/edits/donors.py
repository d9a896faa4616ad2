"""Runs that others read: for their models, and for what their heads do.

What a run is is known to the rooms above this one, and to plug-ins: each registers a
reader of its own format.
"""

import contextlib
import contextvars
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

import opto

from ..plugins import import_installed


@dataclasses.dataclass(frozen=True)
class Donor:
    """A run at a checkpoint, as far as another run needs it.

    **Fields:**

    - `model`: At the checkpoint.
    - `edits`: That it was trained under.
    - `inputs`: What the model is called with, for one example.
    - `task`, `evaluations`: Of a run of ours; none of one of another codebase.
    """

    model: Any
    edits: tuple[opto.AbstractEdit, ...]
    inputs: tuple[jax.ShapeDtypeStruct, ...]
    task: Any = None
    evaluations: Mapping[str, Any] = dataclasses.field(default_factory=dict)


DonorReader = Callable[[Path, int], Donor | None]
"""Reads a run at a path and a checkpoint, -1 the last; `None` for another format."""

_READERS: list[DonorReader] = []

# The paths that are being read, outermost first.
_READING: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar(
    "reading", default=()
)


def register_reader(reader: DonorReader) -> DonorReader:
    """Lets grafts and ranked heads read runs of a format; a decorator."""
    _READERS.append(reader)
    return reader


def read_donor(source: str | os.PathLike, checkpoint: int, what: str) -> Donor:
    """The run that a path stands for, a folder or a checkpoint file.

    **Arguments:**

    - `what`: What another run does with it, for messages: `"graft from"`.

    **Raises:** `ValueError` for a path or checkpoint that is not there, and for a run
    that is being read already: its own edits need it.
    """
    path = Path(source).resolve()
    with _reading(path, what):
        if not path.exists():
            raise ValueError("there is no such run folder or checkpoint file")
        import_installed()
        for reader in _READERS:
            found = reader(path, checkpoint)
            if found is not None:
                return found
    raise ValueError("it is no run folder or checkpoint file")


@contextlib.contextmanager
def _reading(path: Path, what: str) -> Iterator[None]:
    """While a run is read for another one."""
    resolved, above = str(path), _READING.get()
    if resolved in above:
        raise ValueError(f"a run cannot {what} itself, nor {what} one that does")
    token = _READING.set((*above, resolved))
    try:
        yield
    finally:
        _READING.reset(token)
