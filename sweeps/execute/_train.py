"""Trains the runs that a launch asks for, and waits for them."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from ..folder import Folder
from ..options import ClusterKind
from ..plan import Machine, Wanted
from ..study import StudyScale
from ._cluster import default_file, read_cluster
from ._job import Work
from ._launch import Launch, plan, works
from ._local import Debug, Local
from ._slurm import Slurm


class Executor(Machine, Protocol):
    """What runs jobs: this process, other processes of this machine, or Slurm."""

    name: str

    def start(self, folder: Folder, works: Sequence[Work], study: str) -> bool:
        """Trains or submits the jobs; returns whether all went well."""
        ...


def executor_of(cluster: ClusterKind, cluster_file: Path | None, jobs: int) -> Executor:
    """The executor that the options ask for.

    **Raises:** `ValueError` for a cluster file without Slurm, one that cannot be read,
    or a Slurm that does not answer.
    """
    # Otherwise JAX would reserve most of a GPU's memory for this process.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if cluster == "slurm":
        return Slurm(read_cluster(cluster_file or default_file()))
    if cluster_file is not None:
        raise ValueError("--cluster-file is for --cluster slurm")
    return Local(jobs) if cluster == "local" else Debug()


def train(
    folder: Folder,
    study: str,
    scale: StudyScale,
    asked: Wanted,
    executor: Executor,
    *,
    members: int | None = None,
    logger: str = "",
) -> bool:
    """Trains the unfinished runs; returns `True` if all went well.

    Waits for the jobs, except on Slurm, where it only submits them. Prints a summary
    and the failures to stderr.

    **Arguments:**

    - `members`: The largest number of members of a job; `None` means as many as memory
        allows.
    - `logger`: A further logger, as for `icl.training.loggers.open_logger`.

    **Raises:** `ValueError` if the folder belongs to another study or is in use, or the
    jobs cannot be launched.
    """
    with folder.claimed(study, scale):
        made = plan(folder, asked, executor, members, measure=False)
        _check_not_waiting(made, executor)
        folder.begin(
            study, scale, made.experiments, made.chosen, made.dropped, made.jobs
        )
        print(launch_summary(made, members), file=sys.stderr)
        good = executor.start(folder, works(made, logger), study)
    failed = [*_failures(folder, made, waits=executor.name != "slurm")]
    for line in failed:
        print(line, file=sys.stderr)
    return good and not failed


def _check_not_waiting(made: Launch, executor: Executor) -> None:
    """Raises `ValueError` if jobs of an earlier launch are in the way of this one."""
    for job in made.queued if made.jobs else ():
        if job.cluster == executor.name == "slurm":
            continue
        needed = any(job.name in other.needs for other in made.jobs)
        if job.cluster != "slurm" or needed:
            raise ValueError(
                f"job {job.name} of an earlier launch is still there ({job.cluster}, "
                f"{job.job_id}); wait for it, or cancel it with python -m sweeps "
                f"cancel {made.folder.path}"
            )


def launch_summary(made: Launch, members: int | None) -> str:
    """The plan of a launch in one line."""
    runs = sum(len(job.runs) for job in made.jobs)
    queued = sum(len(job.runs) for job in made.queued)
    parts = [f"{runs} runs in {len(made.jobs)} jobs"]
    if made.finished:
        parts.append(f"{len(made.finished)} finished before")
    if queued:
        parts.append(f"{queued} queued or running already")
    larger = sum(len(job.runs) > members for job in made.jobs) if members else 0
    if larger:
        parts.append(f"{larger} of the jobs larger than --members, as when they began")
    return ", ".join(parts)


def _failures(folder: Folder, made: Launch, waits: bool) -> Iterator[str]:
    """A line for each run that failed now, or that is finished and had failed."""
    trained = {run for job in made.jobs for run in job.runs} if waits else set()
    for run in made.chosen:
        report = folder.report(run)
        known = run in trained or run in made.finished
        if known and report is not None and report.state == "failed":
            yield f"{run} failed: {report.error}"
