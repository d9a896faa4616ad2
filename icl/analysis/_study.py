"""The folder of a study, read: which runs there are, and what they logged."""

import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .._curves import Curves, curves
from ..experiment import load, Trained
from ..runs import read_object, Run


RUNS = "ICL_RUNS"
"""The environment variable that names the folder of the studies."""


def runs_folder() -> Path:
    """Where the studies are: `$ICL_RUNS`, or `runs` here or in a folder above."""
    if named := os.environ.get(RUNS):
        return Path(named)
    here = Path.cwd()
    found = (up / "runs" for up in (here, *here.parents) if (up / "runs").is_dir())
    return next(found, here / "runs")


def find_run(*names: str) -> Path | None:
    """The first of some runs that is there and finished, such as `induction/main`.

    **Arguments:** `names`: Paths within `runs_folder()`.
    """
    folder = runs_folder()
    finished = (folder / name for name in names if _finished(folder / name))
    return next(finished, None)


def _finished(path: Path) -> bool:
    try:
        return Run(path).finished
    except ValueError:  # None yet.
        return False


@dataclass(frozen=True)
class Study:
    """What `python -m sweeps NAME` made, as far as it is there.

    A study that was not run has no runs; a run that was not is not `in` it.

    **Fields:**

    - `path`: Its folder.
    - `scale`: Such as `"small"`; empty if it was not run.
    - `names`: Its runs that are finished, in the order of the study.
    - `planned`: How many it has in all.
    """

    path: Path
    scale: str = ""
    names: tuple[str, ...] = ()
    planned: int = 0

    @staticmethod
    def read(path: str | os.PathLike) -> "Study":
        """The study in a folder; one without runs if there is none.

        **Raises:** `ValueError` if what it says of itself is damaged.
        """
        path = Path(path)
        file = path / "_sweep" / "study.json"
        if not file.is_file():
            return Study(path)
        found = read_object(file)
        runs = found.get("runs")
        if not isinstance(runs, dict) or "scale" not in found:
            raise ValueError(f"{file} is damaged: it does not say what the study is")
        there = tuple(name for name in runs if _finished(path / name))
        return Study(path, str(found["scale"]), there, len(runs))

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __str__(self) -> str:
        if not self.planned:
            return f"{self.path.name}: not run"
        runs = f"{len(self.names)} of {self.planned} runs"
        return f"{self.path.name}: scale {self.scale!r}, {runs}"

    def load(self, name: str, checkpoint: int = -1) -> Trained:
        """A run as `icl.load` gives it; raises `ValueError` if it is not there."""
        if name not in self:
            raise ValueError(f"{self.path} has no finished run {name!r}")
        return load(self.path / name, checkpoint)

    def curve(
        self, name: str, metric: str = "loss", *, data: str = "train"
    ) -> tuple[np.ndarray, np.ndarray]:
        """A metric over training, the mean over an evaluation set.

        **Returns:** Sequences seen and values, `[event]` each; empty for a run, a set
        or a metric that is not there.
        """
        if name not in self:
            return np.empty(0, np.int64), np.empty(0)
        return logged_curve(self.path / name, metric, data=data)


def logged_curve(
    run: str | os.PathLike, metric: str = "loss", *, data: str = "train"
) -> tuple[np.ndarray, np.ndarray]:
    """A metric of a run over training, so far; the mean over an evaluation set.

    **Returns:** As `Study.curve`; empty for what is not there.
    """
    log = Path(run) / "log.h5"
    if not log.is_file() or not (log.parent / "config.json").is_file():
        return np.empty(0, np.int64), np.empty(0)
    # A notebook reads a log many times, and a run that goes on has another one.
    found = _curves(Path(run), log.stat().st_mtime_ns)
    if metric not in found.numbers.get(data, {}):
        return np.empty(0, np.int64), np.empty(0)
    return found.events, found.numbers[data][metric]


@functools.lru_cache(maxsize=256)
def _curves(path: Path, written_at: int) -> Curves:
    """The learning curves of a run, whose log was written at a time."""
    return curves(Run(path))


def together(
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]] | Iterable[tuple],
) -> tuple[np.ndarray, np.ndarray]:
    """Curves that were looked at differently often, on one axis.

    **Returns:**

    All points of all curves, `[point]`, and the curves there, `[point, curve]`: linear
    in between, NaN before the first and after the last of their own.
    """
    pairs = [*curves.values()] if isinstance(curves, Mapping) else [*curves]
    points = np.unique(np.concatenate([np.asarray(x) for x, _ in pairs] or [[]]))
    values = [
        np.interp(points, x, y, left=np.nan, right=np.nan)
        if len(x)
        else np.full(len(points), np.nan)
        for x, y in pairs
    ]
    empty = np.empty((len(points), 0))
    return points, np.stack(values, 1) if values else empty
