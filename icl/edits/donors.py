"""Runs that another run reads, for their model or for what their heads do.

This package does not know the formats of runs. The packages above it and plug-ins do:
each registers a reader for its own format.
"""

import contextvars
import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax

import opto

from ..plugins import Kinds


@dataclasses.dataclass(frozen=True)
class Donor:
    """What another run needs of a run at a checkpoint.

    **Fields:**

    - `model`: The model at the checkpoint.
    - `edits`: The edits that it was trained under.
    - `inputs`: What the model is called with, for one example.
    - `task`, `evaluations`: Those of the run; empty for a run of another codebase.
    """

    model: Any
    edits: tuple[opto.toolkit.AbstractEdit, ...]
    inputs: tuple[jax.ShapeDtypeStruct, ...]
    task: Any = None
    evaluations: Mapping[str, Any] = dataclasses.field(default_factory=dict)


DonorReader = Callable[[Path, int], Donor | None]
"""Reads the run at a path, at a checkpoint (-1 is the last).

Gives `None` if the run has another format.
"""

_READERS = Kinds("readers of runs")

# The paths that are being read now, outermost first.
_READING: contextvars.ContextVar[tuple[Path, ...]] = contextvars.ContextVar(
    "reading", default=()
)


def register_reader(reader: DonorReader) -> DonorReader:
    """Decorator: lets grafts and ranked heads read runs of one more format."""
    _READERS.add(f"{reader.__module__}.{reader.__qualname__}", reader)
    return reader


def read_donor(source: str | os.PathLike, checkpoint: int, what: str) -> Donor:
    """Reads the run at a path, which is a run folder or a checkpoint file.

    **Arguments:**

    - `what`: What the other run does with it, for messages, such as `"graft from"`.

    **Raises:** `ValueError` if the path or checkpoint does not exist, and if the run is
    being read already, because its own edits need it.
    """
    path, above = Path(source).resolve(), _READING.get()
    if path in above:
        raise ValueError(f"a run cannot {what} itself or {what} a run that does")
    if not path.exists():
        raise ValueError("there is no such run folder or checkpoint file")
    token = _READING.set((*above, path))
    try:
        for reader in _READERS.found().values():
            found = reader(path, checkpoint)
            if found is not None:
                return found
    finally:
        _READING.reset(token)
    raise ValueError("this is not a run folder or checkpoint file")
