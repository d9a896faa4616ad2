"""The run folder for reading: config, log, checkpoints, and the points to resume from.

Iterations are sequences seen.
"""

import operator
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ..checksums import (
    Checked,
    checked,
    digest_of,
    owner_of,
    read_object,
    read_text,
    SUMS,
    was_kept,
)
from ..config import Config, from_json
from ..plugins import made_with
from ._trees import readable, Recast, say_recast, Tree, tree_of
from .log import last_logged, Log


class Run:
    """A run folder for reading: its config, log and checkpoints."""

    seen: ClassVar[str] = "sequences seen"
    """What the numbers of its checkpoints count."""

    def __init__(self, path: str | os.PathLike):
        """**Raises:** `ValueError` if there is no run at `path`."""
        self.path = Path(path)
        if not (self.path / "config.json").is_file():
            hint = "; give its folder" if self.path.name == "config.json" else ""
            raise ValueError(
                f"{self.path} is not a run folder: it has no config.json{hint}"
            )

    @property
    def config(self) -> dict[str, Any]:
        """The run's config as JSON data."""
        return read_object(self.path / "config.json")

    @property
    def plugins(self) -> tuple[str, ...]:
        """The plug-ins that were imported when it was made; see `icl.plugins`."""
        return tuple(self._meta.get("plugins", ()))

    @property
    def devices(self) -> int:
        """The number of devices that shared each batch when the run began."""
        return self._meta.get("devices", 1)  # Older versions used one.

    @property
    def _meta(self) -> dict[str, Any]:
        file = self.path / "meta.json"
        # Only messages need it: a run without the file is also readable.
        return read_object(file) if file.exists() else {}

    def read(self, kind: type[Config]) -> Config:
        """The run's config as a dataclass.

        **Raises:** `ValueError` as in `from_json`. If the config needs kinds of a
        plug-in, the error says what to import.
        """
        with made_with(self.plugins):
            return from_json(kind, self.config)

    @property
    def log(self) -> Log:
        """The log up to the last save; empty before the first save."""
        file = self.path / "log.h5"
        return Log.read(file) if file.exists() else Log()

    @property
    def logged_sequences(self) -> int:
        """Sequences seen at the last logged step; 0 before the first save.

        **Raises:** `ValueError` if the log cannot be read.
        """
        file = self.path / "log.h5"
        return last_logged(file) if file.exists() else 0

    @property
    def checkpoints(self) -> list[int]:
        """Sequences seen at each checkpoint, ascending."""
        return _numbered(self.path / "checkpoints")

    @property
    def resume_points(self) -> list[int]:
        """Sequences seen at the states from which a later process can continue."""
        return resume_points(self.path)

    def load(self, template: Tree, checkpoint: int = -1) -> Tree:
        """The model at a checkpoint.

        **Arguments:**

        - `template`: A model of the run's structure; its arrays are replaced.
        - `checkpoint`: Sequences seen, one of `checkpoints`; -1 is the last.

        If `jax_enable_x64` is not as in training, a 32-bit model is read as a 64-bit
        one, or the other way around, with a warning.

        **Raises:** `ValueError` if there is no such checkpoint, it is damaged or it
        does not fit.
        """
        file = self.checkpoint_file(self.find(checkpoint))
        return self._read(file, template, say_recast)

    def read_checkpoint(self, checkpoint: int) -> Checked:
        """The whole content of a checkpoint's file.

        **Raises:** `ValueError` if it cannot be read or is damaged.
        """
        return self._checked(self.checkpoint_file(checkpoint))

    def digest(self, checkpoint: int) -> str:
        """What tells a checkpoint's content from any other; its checksum if it has one.

        **Raises:** `ValueError` if the file cannot be read or its checksum is damaged.
        """
        file = self.checkpoint_file(checkpoint)
        with readable(file):
            return digest_of(file)

    def _read(self, file: Path, template: Tree, recast: Recast) -> Tree:
        return tree_of(self._checked(file).content, file, template, recast)

    def _checked(self, file: Path) -> Checked:
        with readable(file):
            return checked(file.read_bytes(), self.owner(file))

    def owner(self, file: Path) -> str | None:
        """The owner of a file of the run; see `icl.checksums`."""
        return owner_of(file)

    def find(self, checkpoint: int) -> int:
        """The checkpoint (-1 is the last); raises `ValueError` if there is none."""
        checkpoint = operator.index(checkpoint)
        # Do not list the folder if one file answers it: replays ask for each.
        if checkpoint >= 0 and self.checkpoint_file(checkpoint).is_file():
            return checkpoint
        known = self.checkpoints
        if not known:
            raise ValueError(f"{self.path} has no checkpoints yet")
        if checkpoint == -1:
            return known[-1]
        nearest = min(known, key=lambda n: abs(n - checkpoint))
        have = f"it has {len(known)} checkpoints; the nearest is {nearest}"
        raise ValueError(f"{self.path} has no checkpoint {checkpoint} ({have})")

    def check_data(self, digest: str | None) -> None:
        """Raises `ValueError` if the data's file changed since the run began.

        **Arguments:**

        - `digest`: The digest of the file; `None` for data that is drawn from a seed.
        """
        file = self.path / "data.sha256"
        known = read_text(file) if was_kept(file) else digest
        if known != digest:
            raise ValueError(
                f"the data's file has changed since {self.path} was trained on it: "
                f"its SHA-256 was {known}, now it is {digest}"
            )

    def checkpoint_file(self, sequences: int) -> Path:
        """The file of a checkpoint, whether it exists or not."""
        return self.path / "checkpoints" / f"{sequences:012d}.eqx"


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


def resume_points(path: str | os.PathLike) -> list[int]:
    """`Run.resume_points` of a folder; empty if it has no run yet."""
    return _numbered(Path(path) / "resume")


def _numbered(folder: Path) -> list[int]:
    files = folder.glob("*.eqx")
    return sorted(int(file.stem) for file in files if file.stem.isdigit())
