"""The log of a run: one row for each step and one for each evaluation."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..checksums import is_sealed, owner_of
from ..files import open_hdf5, write_hdf5


class Log:
    """The measurements of a run, in memory.

    `train[metric]` has a row for each step. `evaluations[set][metric]` is
    `[event, sequence]`, or `[event, sequence, position]` for a metric by position.
    `events` has the sequences seen at each evaluation.
    """

    def __init__(self):
        self._train: dict[str, list[np.ndarray]] = {}
        self._events: list[int] = []
        self._evaluations: dict[str, dict[str, list[np.ndarray]]] = {}

    @property
    def train(self) -> dict[str, np.ndarray]:
        """Each training metric, `[step]`."""
        return {name: np.concatenate(rows) for name, rows in self._train.items()}

    @property
    def events(self) -> np.ndarray:
        """Sequences seen at each evaluation, `[event]`."""
        return np.asarray(self._events, np.int64)

    @property
    def evaluations(self) -> dict[str, dict[str, np.ndarray]]:
        """Each metric of each evaluation set, `[event, sequence, ...]`."""
        return {
            name: {metric: np.stack(rows) for metric, rows in metrics.items()}
            for name, metrics in self._evaluations.items()
        }

    def add_steps(self, metrics: Mapping[str, np.ndarray]) -> None:
        """Appends the rows of some steps, `[step]` each."""
        for name, rows in metrics.items():
            self._train.setdefault(name, []).append(np.asarray(rows))

    def add_evaluation(
        self, sequences: int, sets: Mapping[str, Mapping[str, np.ndarray]]
    ) -> None:
        """Appends one evaluation, `[sequence, ...]` for each set and metric."""
        self._events.append(sequences)
        for name, metrics in sets.items():
            rows = self._evaluations.setdefault(name, {})
            for metric, row in metrics.items():
                rows.setdefault(metric, []).append(np.asarray(row))

    def truncated(self, steps: int, sequences: int) -> "Log":
        """The log as it was after `steps` steps with `sequences` sequences."""
        log = Log()
        log.add_steps({name: rows[:steps] for name, rows in self.train.items()})
        evaluations = self.evaluations
        for event, seen in enumerate(self._events):
            if seen <= sequences:
                log.add_evaluation(
                    seen,
                    {
                        name: {metric: rows[event] for metric, rows in metrics.items()}
                        for name, metrics in evaluations.items()
                    },
                )
        return log

    def write(self, path: Path, batch_size: int) -> None:
        """Writes `log.h5`, whole or not at all."""

        def fill(file: h5py.File) -> None:
            train = self.train
            for name, rows in train.items():
                file[f"train/{name}"] = rows
            steps = max((len(rows) for rows in train.values()), default=0)
            file["train/iter"] = batch_size * np.arange(1, steps + 1)
            file["eval/iter"] = self.events
            for name, metrics in self.evaluations.items():
                for metric, rows in metrics.items():
                    file[f"eval/{name}/{metric}"] = rows

        write_hdf5(path, fill, owner_of(path))

    @staticmethod
    def read(path: Path) -> "Log":
        """Reads `log.h5`.

        **Raises:** `ValueError` if it is not a readable log, or is damaged.
        """
        log = Log()
        with _readable(path):
            with open_log(path) as file:
                train = {
                    name: logged_rows(data) for name, data in _group(file, "train")
                }
                train.pop("iter")
                log._train = {name: [rows] for name, rows in train.items()}
                evaluations = dict(_group(file, "eval"))
                log._events = evaluations.pop("iter")[()].tolist()
                log._evaluations = {
                    name: {m: list(logged_rows(rows)) for m, rows in group.items()}
                    for name, group in evaluations.items()
                }
        return log


def last_logged(path: Path) -> int:
    """Sequences seen at the last step in `log.h5`; 0 if it has none.

    **Raises:** `ValueError` if it is not a readable log, or is damaged.
    """
    with _readable(path), open_log(path) as file:
        steps = dict(_group(file, "train"))["iter"]
        return int(steps[-1]) if len(steps) else 0


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, KeyError, RuntimeError, AttributeError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is not a readable log: {reason}") from None


def open_log(path: Path) -> h5py.File:
    """Opens `log.h5` for reading, after a check of its checksum.

    **Raises:** `OSError` if it cannot be read or is damaged, or if it has no checksum
    although the run began with checksums.
    """
    return open_hdf5(path, owner_of(path))


def logged_rows(data: h5py.Dataset) -> np.ndarray:
    """The rows of a metric in a log, with NaN where the metric is undefined.

    Versions without checksums wrote infinity there.
    """
    rows = data[()]
    metric = str(data.name).rpartition("/")[2]
    if metric not in _UNDEFINED or is_sealed(Path(data.file.filename).parent):
        return rows
    return np.where(np.isinf(rows), np.nan, rows).astype(rows.dtype)


# Losses among some of the labels; undefined if the right label is not one of them.
_UNDEFINED = ("in_context_loss", "out_of_context_loss")


def _group(file: h5py.File, name: str) -> Iterator[tuple[str, Any]]:
    group = file[name]
    if not isinstance(group, h5py.Group):
        raise KeyError(f"{name} is not a group")
    yield from group.items()
