"""Weights & Biases."""

import importlib
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..files import write_bytes


# By name, for it is only there with the extra.
_wandb = importlib.import_module("wandb")

# W&B waits for ever by default, for a network that is down, say. What it could not send
# stays on the disk for `wandb sync`.
_FINISH_SECONDS = 10.0


class WandB:
    """A `Logger` that is a run of W&B; several may be open in one process.

    The x-axis of its charts is sequences seen. Numbers that come again after a resume
    are points at the same place.
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
                console="off",  # Of several runs each would show what all print.
                finish_timeout=_FINISH_SECONDS,
            ),
        )
        self._run.define_metric("sequences")
        self._run.define_metric("*", step_metric="sequences")

    def log(self, sequences: int, metrics: Mapping[str, float]) -> None:
        """Hands the numbers to W&B's own process."""
        self._run.log({"sequences": sequences, **metrics})

    def close(self) -> None:
        """Ends the run, as a failed one while an exception is under way."""
        self._run.finish(exit_code=0 if sys.exc_info()[0] is None else 1)


def _identity(folder: Path) -> str:
    """What W&B knows the run in a folder by.

    It is drawn once and kept there, so that a resumed job goes on in the same run.
    Nothing made of the folder's name would do: other machines may have the same name,
    and a run that is deleted and trained anew is another.
    """
    file = folder / "wandb-id"
    if not file.exists():
        write_bytes(file, secrets.token_hex(8).encode())
    return file.read_text()
