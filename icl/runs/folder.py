"""The run folder: config, log, checkpoints, and the point to resume from.

Iterations are sequences seen. Whatever kills the process, the folder resumes to the
same bits: each file is whole or absent, and the resume point is written after the log
and the checkpoints that belong to it; what lies beyond it is dropped on resuming.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PyTree

from ..config import changed, Config, differences, from_json, to_json
from ..files import TEMPORARY, write_bytes
from ..plugins import made_with
from ._disk import disk, read_object
from ._lock import lock
from ._provenance import provenance
from ._trees import read_tree, Tree, tree_bytes
from .log import Log


class Run:
    """A run folder that is read: its config, log and checkpoints."""

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
        # A help for errors: without the file a run is read as well.
        with contextlib.suppress(ValueError):
            return tuple(read_object(self.path / "meta.json").get("plugins", ()))
        return ()

    def read(self, kind: type[Config]) -> Config:
        """The run's config as a dataclass.

        **Raises:** `ValueError` as `from_json`; it says what to import if the config
        names kinds of a plug-in.
        """
        with made_with(self.plugins):
            return from_json(kind, self.config)

    @property
    def log(self) -> Log:
        """What was logged, up to the last save; empty before the first."""
        file = self.path / "log.h5"
        return Log.read(file) if file.exists() else Log()

    @property
    def checkpoints(self) -> list[int]:
        """Sequences seen at each checkpoint, ascending."""
        return _numbered(self.path / "checkpoints")

    @property
    def resume_points(self) -> list[int]:
        """Sequences seen at the states that a later process can continue from."""
        return resume_points(self.path)

    def load(self, template: Tree, checkpoint: int = -1) -> Tree:
        """The model at a checkpoint.

        **Arguments:**

        - `template`: A model of the run's structure, whose arrays are replaced.
        - `checkpoint`: Sequences seen, one of `checkpoints`; -1 is the last.

        **Raises:** `ValueError` if there is no such checkpoint or it does not fit.
        """
        return read_tree(self.checkpoint_file(self.find(checkpoint)), template)

    def find(self, checkpoint: int) -> int:
        """The checkpoint, -1 being the last; raises `ValueError` if it is not there."""
        if isinstance(checkpoint, bool) or not isinstance(checkpoint, int | np.integer):
            wanted = "checkpoint must be an integer, the sequences seen"
            raise ValueError(f"{wanted}, got {checkpoint!r}")
        # No listing of the folder where one file will do: replays ask for each.
        if checkpoint >= 0 and self.checkpoint_file(checkpoint).is_file():
            return int(checkpoint)
        known = self.checkpoints
        if not known:
            raise ValueError(f"{self.path} has no checkpoints yet")
        if checkpoint == -1:
            return known[-1]
        nearest = min(known, key=lambda n: abs(n - checkpoint))
        have = f"{len(known)} of them, the nearest {nearest}"
        raise ValueError(f"{self.path} has no checkpoint {checkpoint} ({have})")

    def check_data(self, digest: str | None) -> None:
        """Raises `ValueError` if the data's file is not the one the run began with.

        **Arguments:**

        - `digest`: Of the file; `None` for data that is drawn from a seed.
        """
        file = self._digest_file
        known = file.read_text() if file.is_file() else digest
        if known != digest:
            raise ValueError(
                f"the data's file has changed since {self.path} was trained on it: "
                f"its SHA-256 was {known}, now {digest}"
            )

    @property
    def _digest_file(self) -> Path:
        return self.path / "data.sha256"

    def checkpoint_file(self, sequences: int) -> Path:
        """The file of a checkpoint, whether it is there or not."""
        return self.path / "checkpoints" / f"{sequences:012d}.eqx"


class RunWriter(Run):
    """A run folder that this process, and no other, writes; made by `open_run`."""

    def keep_data(self, digest: str | None) -> None:
        """As `check_data`, and notes the digest the first time."""
        self.check_data(digest)
        if digest is not None and not self._digest_file.exists():
            with disk(self.path):
                write_bytes(self._digest_file, digest.encode())

    def save_checkpoint(self, sequences: int, model: PyTree) -> None:
        """Keeps the arrays of `model` as `checkpoints/<sequences>.eqx`."""
        with disk(self.path):
            write_bytes(self.checkpoint_file(sequences), tree_bytes(model))

    def save_resume_point(
        self, sequences: int, state: PyTree, log: Log, batch_size: int
    ) -> None:
        """Writes the log, then the state that a later process continues from.

        The point before is kept too: members that train together, killed between the
        first one's save and the last one's, still have a point in common.
        """
        with disk(self.path):
            log.write(self.path / "log.h5", batch_size)
            write_bytes(self._resume_file(sequences), tree_bytes(state))
            for old in self.resume_points[:-2]:
                self._resume_file(old).unlink()

    def load_state(self, sequences: int, template: Tree) -> Tree:
        """The state of a resume point."""
        return read_tree(self._resume_file(sequences), template)

    def drop_after(self, sequences: int) -> None:
        """Removes the checkpoints and resume points that lie beyond."""
        with disk(self.path):
            for checkpoint in self.checkpoints:
                if checkpoint > sequences:
                    self.checkpoint_file(checkpoint).unlink()
            for point in self.resume_points:
                if point > sequences:
                    self._resume_file(point).unlink()

    def _resume_file(self, sequences: int) -> Path:
        return self.path / "resume" / f"{sequences:012d}.eqx"


@contextlib.contextmanager
def open_run(
    path: str | os.PathLike, config: Any, *, resume: bool = False
) -> Iterator[RunWriter]:
    """Makes a run folder, or with `resume` continues one, and keeps others out.

    **Arguments:**

    - `path`: The folder; its parents are made.
    - `config`: What rebuilds the run: a frozen dataclass, or JSON data. A dataclass is
        compared with the stored one as this version writes both, so that a field which
        came later orphans no run.
    - `resume`: Continue what is there; a folder that is not there is made.

    **Raises:** `ValueError` if the folder holds a run and `resume` is false, if its
    config differs (with the fields), if it holds something else, or if another process
    writes to it.
    """
    if not os.fspath(path):
        raise ValueError("a run needs the name of a folder, got ''")
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; a run needs a folder")
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
    _check_free(folder)
    with lock(folder):
        if (folder / "config.json").exists():
            _check_same(Run(folder), config, resume)
        else:
            _create(folder, config)
        with disk(folder):
            for part in ("checkpoints", "resume"):
                (folder / part).mkdir(exist_ok=True)
            for part in ("", "checkpoints", "resume"):
                for leftover in (folder / part).glob(TEMPORARY):
                    leftover.unlink()
        yield RunWriter(folder)


def _check_free(folder: Path) -> None:
    """Raises `ValueError` for a folder of other things, before a lock is put there."""
    names = {file.name for file in folder.iterdir()}
    if "config.json" in names:
        return
    if ".lock" in names:
        # What a process leaves that was killed while it made the run.
        empty = (
            n for n in ("checkpoints", "resume") if not any((folder / n).glob("*"))
        )
        started = {".lock", "meta.json", *empty}
        names -= {*started, *(file.name for file in folder.glob(TEMPORARY))}
    if names:
        raise ValueError(f"{folder} is not empty and not a run (it holds {min(names)})")


def _create(folder: Path, config: Any) -> None:
    made_by = json.dumps(provenance(), indent=2)
    with disk(folder):
        write_bytes(folder / "meta.json", made_by.encode())
        # Last: the folder is a run from here on.
        text = json.dumps(_as_json(config), indent=2)
        write_bytes(folder / "config.json", text.encode())


def _check_same(run: Run, config: Any, resume: bool) -> None:
    if not resume:
        raise ValueError(f"{run.path} already holds a run; --resume continues it")
    if dataclasses.is_dataclass(config):
        lines = changed(run.config, config)
    else:
        lines = [*differences(run.config, _as_json(config))]
    if lines:
        raise ValueError(
            f"{run.path} holds a run of another config: {'; '.join(lines)}; its own is "
            f"{run.path / 'config.json'}, which `icl train` takes for a preset"
        )


def _as_json(config: Any) -> Any:
    data = to_json(config) if dataclasses.is_dataclass(config) else config
    return json.loads(json.dumps(data))  # Tuples and lists are the same there.


def resume_points(path: str | os.PathLike) -> list[int]:
    """`Run.resume_points` of a folder; empty if there is no run yet."""
    return _numbered(Path(path) / "resume")


def _numbered(folder: Path) -> list[int]:
    files = folder.glob("*.eqx")
    return sorted(int(file.stem) for file in files if file.stem.isdigit())
