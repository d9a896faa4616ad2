"""Writing a run folder: only one process does, and a kill at any instant is harmless.

Even if the process is killed, the folder resumes to the same bits: each file is whole
or absent, and the resume point is written after its log and checkpoints. On resuming,
everything later than the resume point is deleted.
"""

import contextlib
import dataclasses
import fcntl
import json
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxtyping import PyTree

from ..checksums import is_sealed, LISTED, SUMS, sums, with_checksum, with_sums
from ..config import changed, differences, to_json
from ..files import TEMPORARY, write_bytes
from ._provenance import provenance
from ._trees import refuse_recast, Tree, tree_bytes
from .folder import Run
from .log import Log


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


def keep(folder: Path, name: str, text: str) -> None:
    """Writes one more text file of a run, after its checksum."""
    if is_sealed(folder):
        write_bytes(folder / SUMS, with_sums(sums(folder), {name: text}))
    write_bytes(folder / name, text.encode())


class RunWriter(Run):
    """A run folder that only this process writes; made by `open_run`."""

    def keep_data(self, digest: str | None) -> None:
        """Does `check_data`, and stores the digest the first time."""
        self.check_data(digest)
        if digest is not None and not (self.path / "data.sha256").exists():
            with disk(self.path):
                keep(self.path, "data.sha256", digest)

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

    def copy(self, run: Run, name: str) -> None:
        """Copies a binary file of another run, as one of this run's.

        **Raises:** `ValueError` if it is damaged.
        """
        content = run._checked(run.path / name).content
        with disk(self.path):
            file = self.path / name
            write_bytes(file, *with_checksum(content, self.owner(file)))

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
    # The config comes last: from then on, the folder is a run. A kill in between leaves
    # checksums of missing files, which nobody reads.
    contents = {
        "meta.json": json.dumps({**provenance(), **about}, indent=2),
        "config.json": json.dumps(_as_json(config), indent=2),
    }
    with disk(folder):
        write_bytes(folder / SUMS, with_sums({}, contents))
        for name, text in contents.items():
            write_bytes(folder / name, text.encode())


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
