"""A study as read from its folder: its finished runs, and what they logged."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from icl.runs import is_finished

from ..folder import Folder
from ._curves import Curve, logged_curve


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
