"""The table of what a launch would do."""

import jax

from ..folder import Job
from ..text import counted, duration, memory, NONE, some_of, table
from ._launch import Launch


def plan_table(launch: Launch) -> str:
    """What a launch would do: a row for each run, sorted by job, then the totals."""
    jobs = [*launch.queued, *launch.jobs]
    shared = {run for job in jobs for run in job.runs}
    done = [run for run in launch.finished if run not in shared]
    rows = [[run, NONE, "", *_of_run(launch, run), "", "", "finished"] for run in done]
    for job in jobs:
        rows += _of_job(launch, job)
    header = ("run", "job", "members", "sequences", "needs", "time", "memory", "state")
    return f"{table(rows, header, 'lrrrlrrl')}\n\n{_totals(launch, len(rows))}"


def _of_job(launch: Launch, job: Job) -> list[list[str]]:
    cost = launch.costs.get(job.name)
    time = NONE if cost is None else duration(cost.seconds)
    needed = NONE if cost is None else memory(cost.bytes)
    once = (f"{len(job.runs)}", time, needed)
    rows = []
    for run in job.runs:
        members, time, needed = once if run == job.runs[0] else ("", "", "")
        own = _of_run(launch, run)
        rows.append([run, job.name, members, *own, time, needed, _state(launch, run)])
    return rows


def _of_run(launch: Launch, run: str) -> tuple[str, str]:
    return f"{launch.experiments[run].training.seen_sequences:,}", some_of(
        launch.needed[run], 3
    ) or NONE


def _state(launch: Launch, run: str) -> str:
    if run in launch.finished:
        return "finished"
    if any(run in job.runs for job in launch.queued):
        return "queued"
    seen = launch.folder.sequences(run)
    return f"to resume from {seen:,} sequences" if seen else "new"


def _totals(launch: Launch, count: int) -> str:
    runs = {run for job in launch.jobs for run in job.runs} - {*launch.finished}
    queued = {run for job in launch.queued for run in job.runs} - {*launch.finished}
    parts = [f"{len(runs)} to train"]
    parts += [f"{len(queued)} queued or running already"] if queued else []
    parts += [f"{len(launch.finished)} finished"] if launch.finished else []
    lines = [
        f"{counted(count, 'run')}: {', '.join(parts)}; "
        f"{counted(len(launch.jobs), 'job')} to start."
    ]
    if launch.jobs:
        total = sum(launch.experiments[run].training.seen_sequences for run in runs)
        left = total - sum(launch.folder.sequences(run) for run in runs)
        resumed = "" if left == total else f" of {total:,}"
        lines += [f"{left:,}{resumed} sequences to train on.", _time(launch)]
    return "\n".join(lines)


def _time(launch: Launch) -> str:
    known = [cost.seconds for cost in launch.costs.values()]
    unknown = len(launch.jobs) - len(known)
    if not known:
        return "The time was not measured."
    rest = f", and {counted(unknown, 'job')} not measured" if unknown else ""
    return (
        f"About {duration(sum(known))}, one job after the other{rest}: an estimate "
        f"from a step measured on this machine's device, "
        f"{jax.devices()[0].device_kind}."
    )
