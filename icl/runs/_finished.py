"""Whether a folder holds a run, and whether that run was trained to its end."""

import os
from collections.abc import Mapping
from typing import Any

from ._manifest import SUMS
from .folder import Run


def is_run(path: str | os.PathLike) -> bool:
    """Whether a folder holds a run, finished or not."""
    return os.path.isfile(os.path.join(path, "config.json"))


def was_begun(path: str | os.PathLike) -> bool:
    """Whether a folder holds a run, or held one before its config was lost."""
    kept = any(os.path.isfile(os.path.join(path, x)) for x in (SUMS, "log.h5"))
    return is_run(path) or kept


def is_finished(path: str | os.PathLike) -> bool:
    """Whether a folder holds a run that was trained to its end, for readers.

    The last checkpoint is enough, because an imported run has no resume points.
    """
    try:
        run = Run(path)
        total = total_sequences(run.config)
    except ValueError:  # No run yet, or a run of another codebase.
        return False
    return max([*run.checkpoints, *run.resume_points], default=0) >= total


def total_sequences(config: Mapping[str, Any]) -> int:
    """How many sequences a run of this config sees, in whole batches.

    **Raises:** `ValueError` for a config that does not have the numbers.
    """
    training = config.get("training") or {}
    size, total = (training.get(k) for k in ("batch_size", "num_sequences"))
    if not size or not total:
        raise ValueError("config: training lacks batch_size or num_sequences")
    return -(-total // size) * size
