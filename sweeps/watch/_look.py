"""The progress of each run of a study.

The last report of a run's process is compared with the state of its job, because a
process that is killed cannot report it.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from ..execute import is_alive, queue, running_launch
from ..folder import Folder, Job, last_lines, length_of, Report


SeenState = Literal[
    "finished", "running", "queued", "waiting", "stopped", "failed", "blocked", "new"
]
ACTIVE: tuple[SeenState, ...] = ("running", "queued", "waiting")
WRONG: tuple[SeenState, ...] = ("failed", "blocked")
KILLED = "its process was killed"


@dataclasses.dataclass(frozen=True)
class Seen:
    """The progress of a run."""

    run: str
    state: SeenState
    """`waiting`: another job must finish first; `blocked`: such a job has failed;
    `stopped`: the next launch resumes it."""
    sequences: int
    total: int
    job: Job | None
    rate: float = 0.0
    """Sequences a second; 0 if it does not run, or the rate is not known."""
    loss: float | None = None
    error: str = ""

    @property
    def left(self) -> float | None:
        """The seconds left, if known."""
        return (self.total - self.sequences) / self.rate if self.rate else None


def look(folder: Folder) -> tuple[dict[str, Seen], str]:
    """The progress of each run by name, and a note if Slurm does not answer, or none.

    **Raises:** `ValueError` if the folder holds no study.
    """
    configs, jobs = folder.configs, folder.jobs
    job_of = {run: job for job in jobs.values() for run in job.runs}
    totals = {run: length_of(config) for run, config in configs.items()}
    at = {run: folder.sequences(run) for run in configs}
    # Jobs that are finished need not be looked up.
    asked = {
        job_of[run].name for run in configs if at[run] < totals[run] and run in job_of
    }
    places, note = _places(folder, [jobs[name] for name in sorted(asked)])
    seen = {}
    for run, total in totals.items():
        job = job_of.get(run)
        place = places.get(job.name, "gone") if job else "gone"
        if place == "gone" and at[run] < total:
            at[run] = folder.sequences(run)  # Its job may just have finished it.
        seen[run] = _see(folder, run, job, place, at[run], total)
    return _after_needs(seen, jobs, places), note


# Where a job is. `coming`: a running launch will still start it.
_Place = Literal["running", "queued", "waiting", "blocked", "coming", "unknown", "gone"]


def _places(folder: Folder, jobs: Sequence[Job]) -> tuple[dict[str, _Place], str]:
    queued: dict[str, tuple[str, str]] = {}
    note = ""
    try:
        queued = queue(job.job_id for job in jobs if job.cluster == "slurm")
    except ValueError as error:
        note = f"{error}; the states are those that the runs' processes reported last"
    launching = running_launch(folder) is not None

    def place(job: Job) -> _Place:
        if job.cluster == "slurm" and job.job_id in queued:
            return _of_slurm(*queued[job.job_id])
        if job.cluster == "slurm" and note:
            return "unknown"
        if job.cluster in ("local", "debug") and is_alive(job):
            return "running"
        return "coming" if launching and not _started(folder, job) else "gone"

    return {job.name: place(job) for job in jobs}, note


def _of_slurm(state: str, reason: str) -> _Place:
    if reason == "DependencyNeverSatisfied":
        return "blocked"
    if state == "PENDING" and reason == "Dependency":
        return "waiting"
    return "running" if state in ("RUNNING", "COMPLETING") else "queued"


def _started(folder: Folder, job: Job) -> bool:
    """Whether a job has begun since its file was written."""
    files = [_report_file(folder, run) for run in job.runs]
    files += [folder.log_file(job, "log.err")] if job.job_id else []
    return any(_since(file, folder, job) for file in files)


def _since(file: Path, folder: Folder, job: Job) -> bool:
    """Whether a file was written after the job's file; both times are the disk's."""
    return _written(file) >= _written(folder.sweep / "jobs" / f"{job.name}.json")


def _written(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return -1.0


def _report_file(folder: Folder, run: str) -> Path:
    return folder.sweep / "runs" / f"{run}.json"


def _see(
    folder: Folder, run: str, job: Job | None, place: _Place, at: int, total: int
) -> Seen:
    report = folder.report(run)
    fresh = job is not None and _since(_report_file(folder, run), folder, job)
    state = _state(folder, run, job, place, at >= total, report, fresh)
    live = report if state == "running" and fresh else None
    return Seen(
        run,
        state,
        sequences=live.sequences if live else min(at, total),
        total=total,
        job=job,
        rate=live.rate if live else 0.0,
        loss=report.loss if report else None,
        error=_error(folder, job, state, report),
    )


def _state(
    folder: Folder,
    run: str,
    job: Job | None,
    place: _Place,
    done: bool,
    report: Report | None,
    fresh: bool,
) -> SeenState:
    if done:
        return "failed" if report and report.state == "failed" else "finished"
    # While a job is alive, reports from before it was submitted are out of date.
    last = report.state if report and (fresh or place in ("gone", "unknown")) else ""
    if place == "blocked":
        return "blocked"
    if last == "failed":
        return "failed"
    if place in ACTIVE:
        return place
    if place == "coming":
        return "queued"
    if place == "unknown":
        return last if last in ("running", "stopped") else "queued"
    # The job ended by itself, and none of its runs had begun.
    if job and not fresh and _since(folder.log_file(job, "result.pkl"), folder, job):
        return "failed"
    begun = report or (folder.run(run) / "config.json").is_file()
    if begun or (job and folder.log_file(job, "log.err").exists()):
        return "stopped"
    return "new"


def _error(
    folder: Folder, job: Job | None, state: SeenState, report: Report | None
) -> str:
    if state == "blocked":
        return "it needs a job that has failed"
    if state == "failed" and report and report.state == "failed":
        return report.error
    if state not in ("failed", "stopped") or (report and report.state == "stopped"):
        return ""
    log = last_lines(folder.log_file(job, "log.err"), 20) if job else []
    if state == "failed":
        return log[-1].strip() if log else "it ended before it could say why"
    reasons = [line for line in log if line.startswith("slurmstepd:")]
    return f"{KILLED}: {reasons[-1]}" if reasons else KILLED


def _after_needs(
    seen: dict[str, Seen], jobs: Mapping[str, Job], places: Mapping[str, _Place]
) -> dict[str, Seen]:
    """Marks runs whose jobs have not started as waiting for others, or as blocked."""
    states: dict[str, set[SeenState]] = {
        job.name: {seen[run].state for run in job.runs if run in seen}
        for job in jobs.values()
    }
    found, again = dict(seen), False
    for run, each in seen.items():
        place = places.get(each.job.name, "gone") if each.job else "gone"
        if each.job and place in ("coming", "unknown", "gone"):
            needs = {need: states.get(need, set()) for need in each.job.needs}
            found[run] = _after(needs, each, place)
            again |= found[run].state not in (each.state, "waiting")
    return _after_needs(found, jobs, places) if again else found


def _after(needs: Mapping[str, set[SeenState]], each: Seen, place: _Place) -> Seen:
    """Updates a run from the states of the runs of each job that its own job needs."""
    expected = each.state in ("queued", "waiting")
    if not expected and each.state != "new":
        return each
    # A job fails if all of its runs do.
    bad = [need for need, states in needs.items() if states and states <= {*WRONG}]
    if bad:
        error = f"it needs job {bad[0]}, which has failed"
        return dataclasses.replace(each, state="blocked", error=error)
    every = set().union(*needs.values())
    if expected and place == "coming" and every & {"stopped", "new"}:
        # The launch has passed it by; the next launch will take it.
        state = "stopped" if each.sequences else "new"
        return dataclasses.replace(each, state=state)
    if expected and every & {*ACTIVE}:
        return dataclasses.replace(each, state="waiting")
    return each
