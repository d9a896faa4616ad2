"""The studies' folders: which runs there are, and what they logged."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from icl import Run
from icl.runs import is_finished, is_run

from ..folder import Folder
from ._curves import Curve, logged_curve


RUNS = "ICL_RUNS"
"""The environment variable that names the folder of the studies."""


def runs_folder() -> Path:
    """The folder of the studies: `$ICL_RUNS`, or `runs` here or in a folder above."""
    if named := os.environ.get(RUNS):
        return Path(named)
    here = Path.cwd()
    found = (up / "runs" for up in (here, *here.parents) if (up / "runs").is_dir())
    return next(found, here / "runs")


def find_run(*names: str) -> Path | None:
    """The first of the named runs that is finished; `None` if none is.

    **Arguments:** `names`: Paths within `runs_folder()`, such as `induction/main`.
    """
    folder = runs_folder()
    finished = (folder / name for name in names if is_finished(folder / name))
    return next(finished, None)


def begun(study: str | os.PathLike, pattern: str = "*") -> list[str]:
    """The runs of a study that have a log, finished or not.

    **Arguments:** `pattern`: A pattern of run names, such as `"omniglot-*"`.
    """
    return sorted(log.parent.name for log in Path(study).glob(f"{pattern}/log.h5"))


def latest_run(*runs: str | os.PathLike) -> Path:
    """The first of the runs that is finished; else the first that has a checkpoint.

    **Raises:** `ValueError` if no run has a checkpoint.
    """
    there = [Run(run) for run in runs if is_run(run)]
    some = [run for run in there if run.checkpoints]
    if not some:
        raise ValueError(f"no checkpoints in any of {', '.join(map(str, runs))}")
    done = [run for run in some if is_finished(run.path)]
    return [*done, *some][0].path


@dataclass(frozen=True)
class Study:
    """The finished runs that `python -m sweeps NAME` made.

    `name in study` tells whether a run is finished. A study that was not run has none.

    **Fields:**

    - `path`: Its folder.
    - `scale`: Such as `"small"`; empty if the study was not run.
    - `names`: Its finished runs, in the order of the study.
    - `planned`: The number of all its runs.
    - `name`: Such as `"induction"`; empty if the study was not run.
    """

    path: Path
    scale: str = ""
    names: tuple[str, ...] = ()
    planned: int = 0
    name: str = ""

    @staticmethod
    def read(path: str | os.PathLike) -> "Study":
        """Reads the study in a folder; without runs if there is no study.

        **Raises:** `ValueError` if its `study.json` is damaged.
        """
        folder, path = Folder(path), Path(path)
        if not folder.is_study:
            return Study(path)
        found = folder.read()
        there = tuple(name for name in found["runs"] if is_finished(path / name))
        scale, name = str(found["scale"]), str(found["study"])
        return Study(path, scale, there, len(found["runs"]), name)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __str__(self) -> str:
        if not self.planned:
            return f"{self.path.name}: not run"
        runs = f"{len(self.names)} of {self.planned} runs"
        return f"{self.path.name}: scale {self.scale!r}, {runs}"

    def curve(self, name: str, metric: str = "loss", *, data: str = "train") -> Curve:
        """A metric of a run over training: its mean over an evaluation set.

        **Returns:** Sequences seen and values, `[event]` each; empty if the run is not
        finished, or the set or the metric is missing.
        """
        if name not in self:
            return np.empty(0, np.int64), np.empty(0)
        return logged_curve(self.path / name, metric, data=data)
