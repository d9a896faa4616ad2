"""The run folder: config, log, checkpoints, and the point to resume from.

Iterations are sequences seen. Even if the process is killed, the folder resumes to the
same bits: each file is whole or absent, and the resume point is written after its log
and checkpoints. On resuming, everything later than the resume point is deleted.
"""

import contextlib
import dataclasses
import json
import operator
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxtyping import PyTree

from ..checksums import Checked, checked, digest_of, with_checksum
from ..config import changed, Config, differences, from_json, to_json
from ..files import TEMPORARY, write_bytes
from ..plugins import made_with
from ._disk import disk, lock
from ._manifest import (
    begin,
    is_sealed,
    keep,
    LISTED,
    owner_of,
    read_object,
    read_text,
    SUMS,
    was_kept,
)
from ._provenance import provenance
from ._trees import (
    readable,
    Recast,
    refuse_recast,
    say_recast,
    Tree,
    tree_bytes,
    tree_of,
)
from .log import last_logged, Log


class Run:
    """A run folder for reading: its config, log and checkpoints."""

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
    def is_sealed(self) -> bool:
        """Whether all its files need a checksum; not if an older version began it."""
        return is_sealed(self.path)

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
        file = self._digest_file
        known = read_text(file) if was_kept(file) else digest
        if known != digest:
            raise ValueError(
                f"the data's file has changed since {self.path} was trained on it: "
                f"its SHA-256 was {known}, now it is {digest}"
            )

    @property
    def _digest_file(self) -> Path:
        return self.path / "data.sha256"

    def checkpoint_file(self, sequences: int) -> Path:
        """The file of a checkpoint, whether it exists or not."""
        return self.path / "checkpoints" / f"{sequences:012d}.eqx"


class RunWriter(Run):
    """A run folder that only this process writes; made by `open_run`."""

    def keep_data(self, digest: str | None) -> None:
        """Does `check_data`, and stores the digest the first time."""
        self.check_data(digest)
        if digest is not None and not self._digest_file.exists():
            with disk(self.path):
                keep(self.path, self._digest_file.name, digest)

    def save_checkpoint(self, sequences: int, model: PyTree) -> None:
        """Writes the arrays of `model` to `checkpoints/<sequences>.eqx`."""
        with disk(self.path):
            self._write_tree(self.checkpoint_file(sequences), model)

    def save_resume_point(
        self, sequences: int, state: PyTree, log: Log, batch_size: int
    ) -> None:
        """Writes the log, then the state from which a later process continues.

        The previous point is kept too. If members that train together are killed after
        the first one's save and before the last one's, they still share a point.
        """
        with disk(self.path):
            log.write(self.path / "log.h5", batch_size)
            self._write_tree(self._resume_file(sequences), state)
            for old in self.resume_points[:-2]:
                self._resume_file(old).unlink()

    def _write_tree(self, file: Path, tree: PyTree) -> None:
        write_bytes(file, *with_checksum(tree_bytes(tree), self.owner(file)))

    def load_state(self, sequences: int, template: Tree) -> Tree:
        """The state of a resume point.

        **Raises:** `ValueError` if it is damaged, does not fit, or has another
        precision: a run that continues in another precision is not the same run.
        """
        return self._read(self._resume_file(sequences), template, refuse_recast)

    def drop_after(self, sequences: int) -> None:
        """Removes the checkpoints and resume points after `sequences`."""
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
    path: str | os.PathLike,
    config: Any,
    *,
    resume: bool = False,
    about: Mapping[str, Any] | None = None,
) -> Iterator[RunWriter]:
    """Makes or (with `resume`) continues a run folder, and keeps other processes out.

    **Arguments:**

    - `path`: The folder; its parents are made.
    - `config`: What rebuilds the run: a frozen dataclass, or JSON data. A dataclass is
        compared with the stored config as this version writes both. So a new field does
        not invalidate older runs.
    - `resume`: Continue the run in the folder; a missing folder is made.
    - `about`: What else a new run's `meta.json` says, as JSON data.

    **Raises:** `ValueError` if the folder holds a run and `resume` is false, if the
    run's config differs (naming the fields), if the folder holds something else, or if
    another process writes to it.
    """
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
            _create(folder, config, about or {})
        with disk(folder):
            for part in ("checkpoints", "resume"):
                (folder / part).mkdir(exist_ok=True)
            _clean(folder)
        yield RunWriter(folder)


def _clean(folder: Path) -> None:
    """Removes temporary files of a killed process, but only those that a writer makes.

    Another process may be writing, for example, a report into the folder right now.
    """
    own = (*LISTED, SUMS, "log.h5", "eval_data.h5")
    globs = [f".{name}{TEMPORARY[1:]}" for name in own]
    globs += [f"{part}/{TEMPORARY}" for part in ("checkpoints", "resume")]
    for leftover in (file for each in globs for file in folder.glob(each)):
        leftover.unlink()


def _check_free(folder: Path) -> None:
    """Raises `ValueError` for a folder with other things, before a lock is made."""
    names = {file.name for file in folder.iterdir()}
    if "config.json" in names:
        return
    if ".lock" in names:
        # These files remain if a process is killed while it makes the run.
        empty = (
            n for n in ("checkpoints", "resume") if not any((folder / n).glob("*"))
        )
        started = {".lock", "meta.json", SUMS, *empty}
        names -= {*started, *(file.name for file in folder.glob(TEMPORARY))}
    if names:
        raise ValueError(f"{folder} is not empty and not a run (it holds {min(names)})")


def _create(folder: Path, config: Any, about: Mapping[str, Any]) -> None:
    made_by = json.dumps({**provenance(), **about}, indent=2)
    text = json.dumps(_as_json(config), indent=2)
    with disk(folder):
        # The config comes last: from then on, the folder is a run.
        begin(folder, {"meta.json": made_by, "config.json": text})


def _check_same(run: Run, config: Any, resume: bool) -> None:
    if not resume:
        how = "--resume continues it, in Python resume=True"
        raise ValueError(f"{run.path} already holds a run; {how}")
    if dataclasses.is_dataclass(config):
        lines = changed(run.config, config)
    else:
        lines = [*differences(run.config, _as_json(config))]
    if lines:
        raise ValueError(
            f"{run.path} holds a run of another config: {'; '.join(lines)}; its own "
            f"is {run.path / 'config.json'}, which `icl train` accepts as a preset"
        )


def _as_json(config: Any) -> Any:
    data = to_json(config) if dataclasses.is_dataclass(config) else config
    return json.loads(json.dumps(data))  # In JSON, tuples and lists are the same.


def resume_points(path: str | os.PathLike) -> list[int]:
    """`Run.resume_points` of a folder; empty if it has no run yet."""
    return _numbered(Path(path) / "resume")


def _numbered(folder: Path) -> list[int]:
    files = folder.glob("*.eqx")
    return sorted(int(file.stem) for file in files if file.stem.isdigit())
