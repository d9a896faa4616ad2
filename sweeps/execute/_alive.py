"""Which jobs are still queued or running, wherever they were sent."""

from collections.abc import Iterable

from ..folder import Job
from . import _process, _slurm


def alive_jobs(jobs: Iterable[Job]) -> dict[str, str]:
    """The states of the jobs that have not ended, by name.

    A state is `RUNNING`, `PENDING` or another of Slurm's. A job whose dependency failed
    can never start, so it is left out.

    **Raises:** `ValueError` if some jobs are on Slurm and it does not answer.
    """
    jobs = list(jobs)
    queued = _slurm.queue(job.job_id for job in jobs if job.cluster == "slurm")
    found = {}
    for job in jobs:
        if job.cluster == "slurm" and job.job_id in queued:
            state, reason = queued[job.job_id]
            if reason != "DependencyNeverSatisfied":
                found[job.name] = state
        elif job.cluster in ("local", "debug") and _process.is_alive(job):
            found[job.name] = "RUNNING"
    return found
