"""A logger for Weights & Biases."""

import importlib
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..files import write_bytes


# Imported by name, because only the extra installs it.
_wandb = importlib.import_module("wandb")

# By default W&B waits for ever, for example while the network is down. Unsent data
# stays on the disk for `wandb sync`.
_FINISH_SECONDS = 10.0


class WandB:
    """A `Logger` that is a run of W&B; several may be open in one process.

    The x-axis of its charts is sequences seen. Numbers repeated after a resume are
    points at the same place.
    """

    def __init__(
        self, project: str, name: str, folder: Path, config: Mapping[str, Any]
    ):
        folder.mkdir(parents=True, exist_ok=True)
        self._run = _wandb.init(
            project=project or os.environ.get("WANDB_PROJECT") or "icl-opto",
            name=name,
            id=_identity(folder),
            resume="allow",
            dir=str(folder),
            config=dict(config),
            reinit="create_new",
            settings=_wandb.Settings(
                console="off",  # Each of several runs would show what all runs print.
                finish_timeout=_FINISH_SECONDS,
            ),
        )
        self._run.define_metric("sequences")
        self._run.define_metric("*", step_metric="sequences")

    def log(self, sequences: int, metrics: Mapping[str, float]) -> None:
        """Passes the numbers to W&B's own process."""
        self._run.log({"sequences": sequences, **metrics})

    def close(self) -> None:
        """Ends the run; it counts as failed while an exception is being handled."""
        self._run.finish(exit_code=0 if sys.exc_info()[0] is None else 1)


def _identity(folder: Path) -> str:
    """The id by which W&B knows the run in a folder.

    It is drawn once and kept in the folder, so a resumed job continues the same W&B
    run. The folder's name would not do: other machines may use the same name, and a run
    that is deleted and trained again is another run.
    """
    file = folder / "wandb-id"
    if not file.exists():
        write_bytes(file, secrets.token_hex(8).encode())
    return file.read_text()
