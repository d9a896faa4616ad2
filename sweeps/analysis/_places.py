"""Where runs are stored, and which of them exist."""

import os
from pathlib import Path

from icl import Run
from icl.runs import is_finished, is_run


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
