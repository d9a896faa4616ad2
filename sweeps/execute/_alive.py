"""Which jobs are still queued or running, and the processes of this machine."""

import contextlib
import os
import platform
import signal
from collections.abc import Iterable
from pathlib import Path

from ..folder import Folder, Job
from ._slurm import queue


def alive_jobs(jobs: Iterable[Job]) -> dict[str, str]:
    """The states of the jobs that have not ended, by name.

    A state is `RUNNING`, `PENDING` or another of Slurm's. A job whose dependency failed
    can never start, so it is left out.

    **Raises:** `ValueError` if some jobs are on Slurm and it does not answer.
    """
    jobs = list(jobs)
    queued = queue(job.job_id for job in jobs if job.cluster == "slurm")
    found = {}
    for job in jobs:
        if job.cluster == "slurm" and job.job_id in queued:
            state, reason = queued[job.job_id]
            if reason != "DependencyNeverSatisfied":
                found[job.name] = state
        elif job.cluster in ("local", "debug") and is_alive(job):
            found[job.name] = "RUNNING"
    return found


def stop(folder: Folder, alive: Iterable[Job]) -> None:
    """Tells the running launch of a folder, or else its jobs, to save and end."""
    launch = running_launch(folder)
    # The launch stops its jobs and starts no more.
    processes = [int(job.job_id) for job in alive] if launch is None else [launch]
    for process in dict.fromkeys(processes):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)


def running_launch(folder: Folder) -> int | None:
    """The process of the launch that runs in a folder, if it is on this machine.

    It is read from the lock file: if we tried the lock, a new launch could be refused.
    """
    launcher = folder.launcher
    return launcher if launcher is not None and _is_launch(launcher) else None


def is_alive(job: Job) -> bool:
    """Whether the process of a job on this machine runs, and is still that job's."""
    return bool(job.process) and job.process == process(int(job.job_id))


def _is_launch(number: int) -> bool:
    """Whether process `number` runs and is a launch other than this process."""
    if number == os.getpid() or not process(number):
        return False
    try:
        return b"sweeps" in Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:  # Not Linux, or it has just ended.
        return bool(process(number))


def process(number: int) -> str:
    """The host and the start time of process `number`; empty if it does not run.

    Only the host if the system does not tell start times.
    """
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:  # It runs, and is another user's.
        pass
    host = platform.node()
    try:
        text = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return "" if Path("/proc/self/stat").exists() else host
    state, *fields = text[text.rindex(")") + 2 :].split()
    return "" if state == "Z" else f"{host} {fields[18]}"
