"""Jobs on a Slurm cluster, through submitit."""

import contextlib
import dataclasses
import getpass
import io
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from ..folder import Folder
from ._cluster import Cluster
from ._job import Work


class Slurm:
    """Submits jobs with their dependencies, and does not wait for them."""

    name = "slurm"

    def __init__(self, cluster: Cluster):
        """**Raises:** `ValueError` if there is no Slurm here, or it does not answer."""
        if shutil.which("sbatch") is None:
            raise ValueError("--cluster slurm: there is no sbatch on this machine")
        _squeue("%i")  # Raises now, before anything is written.
        self._cluster = cluster
        self.gpu = cluster.gpus > 0
        self.devices = cluster.devices
        self.device_bytes = cluster.device_bytes
        self.cpu_devices = 1 if cluster.gpus else cluster.cpus

    def start(self, folder: Folder, works: Sequence[Work], study: str) -> bool:
        """Submits the jobs in order; does not wait for them.

        Jobs with the same needs become the tasks of one array. Returns `True`, as all
        were submitted.

        **Raises:** `ValueError` if Slurm refuses a job or does not answer.
        """
        jobs = folder.jobs
        here = {work.job.name for work in works}
        ids = {
            name: job.job_id
            for name, job in jobs.items()
            if name not in here and job.cluster == self.name and job.job_id
        }
        alive = queue(ids.values())
        _cancel_stale(folder)
        ids = {name: job_id for name, job_id in ids.items() if job_id in alive}
        for needs, together in _arrays(works):
            before = sorted(ids[need] for need in needs if need in ids)
            dependency = f"afterok:{':'.join(before)}" if before else ""
            for work, job_id in self._submit(folder, together, study, dependency):
                ids[work.job.name] = job_id
                folder.write_job(
                    dataclasses.replace(work.job, cluster=self.name, job_id=job_id)
                )
        return True

    def _submit(
        self, folder: Folder, works: list[Work], study: str, dependency: str
    ) -> Iterable[tuple[Work, str]]:
        # Slow to import.
        from submitit import SlurmExecutor
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        # Submitit gives up after so many time limits; a sweep must never give up.
        executor = SlurmExecutor(folder.logs, max_num_timeout=1_000_000)
        parameters = self._cluster.sbatch(f"icl-{study}", dependency)
        parameters["setup"] = [*parameters["setup"], *_requeue_if_killed(folder)]
        executor.update_parameters(**parameters)
        try:
            # submitit also prints the errors that it raises.
            with contextlib.redirect_stderr(io.StringIO()), executor.batch():
                jobs = [executor.submit(work) for work in works]
        except (FailedJobError, FailedSubmissionError, OSError) as error:
            lines = [s.removeprefix("sbatch: error: ") for s in str(error).splitlines()]
            raise ValueError(f"sbatch refused: {'; '.join(lines)}") from None
        return [(work, job.job_id) for work, job in zip(works, jobs, strict=True)]


_KILLS = 3


def _requeue_if_killed(folder: Folder) -> list[str]:
    """Shell lines that requeue a job whose process was killed, at most three times.

    For example, the kernel sends SIGKILL when it is out of memory. Status 255 is
    submitit's own exit, which has requeued the job already; a job that is not running
    was cancelled. Jobs that depend on this one keep waiting, as it has not ended yet.
    """
    array = "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}"
    return [
        f"id={array}${{SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}}",
        f"kills={shlex.quote(str(folder.logs))}/$id.kills",
        "requeue_if_killed() {",
        "  code=$?",
        "  [ $code -gt 128 ] && [ $code -lt 255 ] || return",
        # The controller may be down for a while.
        "  for _ in $(seq 60); do",
        "    state=$(squeue --noheader --job $id --format %T) && break",
        "    sleep 10",
        "  done",
        '  [ "$state" = RUNNING ] || return',
        '  echo $code >>"$kills"',
        f'  [ $(wc -l <"$kills") -le {_KILLS} ] && scontrol requeue $id',
        "}",
        "trap requeue_if_killed EXIT",
    ]


def _arrays(works: Sequence[Work]) -> Iterable[tuple[tuple[str, ...], list[Work]]]:
    """Groups neighbouring jobs with the same needs, in the order given."""

    def needs(work: Work) -> tuple[str, ...]:
        return work.job.needs

    for key, together in groupby(works, key=needs):
        yield key, list(together)


def _cancel_stale(folder: Folder) -> None:
    """Cancels the study's jobs that would wait forever for a job that failed.

    This includes jobs of earlier launches that are no longer in the folder, as their
    runs were packed anew.
    """
    rows = (line.split("|", 2) for line in _squeue("%i|%r|%o").splitlines())
    cancel_jobs(
        job_id
        for job_id, reason, script in rows
        if reason == "DependencyNeverSatisfied" and Path(script).parent == folder.logs
    )


def queue(job_ids: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Slurm's state and reason for each of the jobs that is in its queue.

    Does not need Slurm's accounting.

    **Raises:** `ValueError` if Slurm does not answer.
    """
    wanted = set(job_ids)
    if not wanted:
        return {}
    rows = [line.split("|") for line in _squeue("%i|%T|%r").splitlines()]
    return {row[0]: (row[1], row[2]) for row in rows if row[0] in wanted}


def _squeue(form: str) -> str:
    command = ["squeue", "--noheader", "--array", "--user", getpass.getuser()]
    command += ["--format", form]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(f"Slurm does not answer: {error}") from None
    if done.returncode:
        raise ValueError(f"Slurm does not answer: {' '.join(done.stderr.split())}")
    return done.stdout


def cancel_jobs(job_ids: Iterable[str]) -> None:
    """Cancels jobs; jobs that have ended are skipped.

    **Raises:** `ValueError` if Slurm refuses or does not answer.
    """
    ids = list(job_ids)
    if not ids:
        return
    try:
        done = subprocess.run(
            ["scancel", *ids], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(f"Slurm does not answer: {error}") from None
    if done.returncode:
        raise ValueError(f"scancel refused: {' '.join(done.stderr.split())}")
