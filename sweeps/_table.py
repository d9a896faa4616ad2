"""Tables in plain text, and that of what a launch would do."""

from collections.abc import Iterable, Sequence

import jax

from ._folder import Job
from ._launch import Launch


def table(rows: Iterable[Sequence[str]], header: Sequence[str], align: str) -> str:
    """The rows below their header, in columns.

    **Arguments:**

    - `align`: A letter a column: `l` is flush left, `r` right.
    """
    texts = [[*header], *map(list, rows)]
    columns = zip(*texts, strict=True)
    widths = [max(map(len, column)) for column in columns]
    texts.insert(1, ["─" * width for width in widths])
    return "\n".join(
        "  ".join(
            cell.ljust(width) if side == "l" else cell.rjust(width)
            for cell, width, side in zip(row, widths, align, strict=True)
        ).rstrip()
        for row in texts
    )


def duration(seconds: float) -> str:
    """A time to read: `42 s`, `7 min`, `3 h 05 min`, `2 d 4 h`."""
    if seconds < 59.5:
        return f"{round(seconds)} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"


def memory(count: int) -> str:
    """Bytes to read: `340 MiB`, `1.2 GiB`."""
    if count < 1000 * 2**20:
        return f"{count / 2**20:.0f} MiB"
    return f"{count / 2**30:.1f} GiB"


NONE = "–"
"""Stands in a table for what is not known or is not there."""


def counted(count: int, noun: str) -> str:
    """`1 run`, `12,345 runs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def plan_table(launch: Launch) -> str:
    """What a launch would do: a row for each run, by its job, then what it comes to."""
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
    return f"{_sequences(launch, run):,}", _some(launch.needed[run])


def _some(names: Sequence[str], most: int = 3) -> str:
    """Some of the names, as many as a line takes."""
    if not names:
        return NONE
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"


def _state(launch: Launch, run: str) -> str:
    if run in launch.finished:
        return "finished"
    if any(run in job.runs for job in launch.queued):
        return "queued"
    seen = launch.folder.sequences(run)
    return f"to resume from {seen:,} sequences" if seen else "new"


def _sequences(launch: Launch, run: str) -> int:
    """Of the whole run, in whole batches."""
    return launch.experiments[run].training.seen_sequences


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
        total = sum(_sequences(launch, run) for run in runs)
        left = total - sum(launch.folder.sequences(run) for run in runs)
        resumed = "" if left == total else f" of {total:,}"
        lines += [f"{left:,}{resumed} sequences to train on.", _time(launch)]
    return "\n".join(lines)


def _time(launch: Launch) -> str:
    known = [cost.seconds for cost in launch.costs.values()]
    unknown = len(launch.jobs) - len(known)
    if not known:
        return "How long that takes was not measured."
    rest = f", and {counted(unknown, 'job')} not measured" if unknown else ""
    return (
        f"About {duration(sum(known))}, one job after the other{rest}: an estimate "
        f"from a step measured on this machine's device, "
        f"{jax.devices()[0].device_kind}."
    )
