"""What replays of a run have found, kept in its folder by what was asked."""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np

from ..files import open_hdf5, write_hdf5
from ..runs import disk, Run
from ..runs.checkpoints import digest_of, Stamp


_COLUMNS = ("sequences", "size", "modified", "digest", "value")


class Kept:
    """One measure's values at the checkpoints where it was taken already.

    A file of `RUN/replays` has them, named by a digest of the measure's program, the
    edits and the data. A value holds for a checkpoint whose file is as it was: of the
    same size and time or, if that has changed, of the same content.
    """

    def __init__(self, run: Run, key: str):
        self._run, self._key = run, key
        self._file = run.path / "replays" / f"{key}.h5"
        self._rows = self._read()

    def __contains__(self, checkpoint: int) -> bool:
        row = self._rows.get(checkpoint)
        if row is None:
            return False
        stamp = Stamp.of(self._run.checkpoint_file(checkpoint))
        if row.stamp == stamp:
            return True
        if row.digest != digest_of(self._run.read_checkpoint(checkpoint)):
            del self._rows[checkpoint]
            return False
        self._rows[checkpoint] = dataclasses.replace(row, stamp=stamp)
        return True

    def __getitem__(self, checkpoint: int) -> np.ndarray:
        return self._rows[checkpoint].value

    def add(
        self, checkpoint: int, stamp: Stamp, content: str, value: np.ndarray
    ) -> None:
        """Keeps the value at a checkpoint, until `write` in memory alone."""
        self._rows[checkpoint] = _Row(stamp, content, value)

    def write(self, about: Mapping[str, Any]) -> None:
        """Writes the file; warns if that cannot be, as on a read-only disk.

        **Arguments:** `about`: What was asked, in words, for who opens the file.
        """
        order = sorted(self._rows)
        rows = [self._rows[checkpoint] for checkpoint in order]

        def fill(file: h5py.File) -> None:
            file.attrs.update(about)
            file["sequences"] = np.array(order, np.int64)
            file["size"] = np.array([row.stamp.size for row in rows], np.int64)
            file["modified"] = np.array([row.stamp.modified for row in rows], np.int64)
            text = h5py.string_dtype()
            file.create_dataset("digest", data=[row.digest for row in rows], dtype=text)
            file["value"] = np.stack([row.value for row in rows])

        try:
            with disk(self._file.parent):
                self._file.parent.mkdir(exist_ok=True)
                write_hdf5(self._file, fill, self._key)
        except ValueError as error:
            warnings.warn(f"the replay is not kept: {error}", stacklevel=2)

    def _read(self) -> dict[int, "_Row"]:
        if not self._file.exists():
            return {}
        try:
            with open_hdf5(self._file, self._key) as file:
                columns = [_column(file, name) for name in _COLUMNS]
            return {
                int(at): _Row(Stamp(int(a), int(b)), text.decode(), np.asarray(value))
                for at, a, b, text, value in zip(*columns, strict=True)
            }
        except (AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError):
            return {}  # Damaged; nothing is lost but time.


@dataclasses.dataclass(frozen=True)
class _Row:
    stamp: Stamp
    digest: str
    value: np.ndarray


def _column(file: h5py.File, name: str) -> np.ndarray:
    data = file[name]
    if not isinstance(data, h5py.Dataset):
        raise KeyError(name)
    return data[()]
