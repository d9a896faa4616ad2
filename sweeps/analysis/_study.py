"""The folder of a study, read: which runs there are, and what they logged."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from icl.experiments import load, Trained
from icl.runs import is_finished

from ..folder import Folder
from ._curves import Curve, logged_curve


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
        folder, path = Folder(path), Path(path)
        if not folder.is_study:
            return Study(path)
        found = folder.read()
        there = tuple(name for name in found["runs"] if is_finished(path / name))
        return Study(path, str(found["scale"]), there, len(found["runs"]))

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

    def curve(self, name: str, metric: str = "loss", *, data: str = "train") -> Curve:
        """A metric over training, the mean over an evaluation set.

        **Returns:** Sequences seen and values, `[event]` each; empty for a run, a set
        or a metric that is not there.
        """
        if name not in self:
            return np.empty(0, np.int64), np.empty(0)
        return logged_curve(self.path / name, metric, data=data)
