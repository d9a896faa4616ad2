"""`python -m sweeps status`: the progress of each run of a study, as text."""

import dataclasses
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import tyro

from icl.cli.options import CommandOptions, parse

from ..folder import Folder, Job, last_lines
from ..text import counted, duration, NONE, table
from ._look import ACTIVE, KILLED, look, Seen, SeenState, WRONG


_WATCH_SECONDS = 2.0
_LOG_LINES = 20


@dataclasses.dataclass(frozen=True)
class StatusOptions(CommandOptions):
    """Show the progress of each run of a study. The exit status is 1 if a run has
    failed, or can never start because a run that it needs has failed."""

    EXAMPLE: ClassVar[str] = "python -m sweeps status runs/induction --watch"

    folder: tyro.conf.Positional[Path]
    """The study's folder."""
    watch: bool = False
    """Keep showing it until nothing is queued or running."""
    failed: bool = False
    """Show only runs that failed, were killed or can never start, and the last lines
    of their logs."""


def status(arguments: list[str]) -> int:
    """Runs the command; returns its status, 1 if a run has failed or can never start.

    **Raises:** `ValueError` if the folder holds no study.
    """
    options = parse(StatusOptions, arguments, "status", program="python -m sweeps")
    folder = Folder(options.folder)
    text = _failures if options.failed else _progress
    seen, note = look(folder)
    if options.watch:
        seen = _watch(folder, text, seen, note)
    else:
        print(text(folder, seen.values(), seen.values(), note))
    return 1 if any(each.state in WRONG for each in seen.values()) else 0


# The folder, the runs to show, all runs, and a note.
_Text = Callable[[Folder, Iterable[Seen], Iterable[Seen], str], str]


def _watch(
    folder: Folder, text: _Text, seen: dict[str, Seen], note: str
) -> dict[str, Seen]:
    """Shows the progress until nothing is queued or running; returns the last state."""
    before: dict[str, SeenState] = {}
    while True:
        every = seen.values()
        if sys.stdout.isatty():
            _redraw(text(folder, _most_telling(every), every, note))
        elif news := [each for each in every if each.state != before.get(each.run)]:
            print(text(folder, news, every, note), flush=True)
        if not any(each.state in ACTIVE for each in every):
            return seen
        before = {each.run: each.state for each in every}
        time.sleep(_WATCH_SECONDS)
        seen, note = look(folder)


def _redraw(text: str) -> None:
    size = shutil.get_terminal_size()
    lines = [line[: size.columns - 1] for line in text.splitlines()]
    # From the top left corner; clears the rest of each line, and all lines below.
    shown = "".join(f"{line}\x1b[K\n" for line in lines[: size.lines - 1])
    print(f"\x1b[H{shown}\x1b[J", end="", flush=True)


_TELLING: tuple[SeenState, ...] = (
    *("running", "failed", "blocked", "stopped", "queued", "waiting", "new"),
    "finished",
)


def _most_telling(seen: Iterable[Seen]) -> list[Seen]:
    """The runs that matter most, as many as the terminal has lines for."""
    seen = list(seen)
    # The header, the summary and the cursor take the other lines.
    most = max(1, shutil.get_terminal_size().lines - 7)
    kept = sorted(seen, key=lambda each: _TELLING.index(each.state))[:most]
    return [each for each in seen if each in kept]


def _progress(
    folder: Folder, shown: Iterable[Seen], every: Iterable[Seen], note: str
) -> str:
    """The table of some runs and the summary of all."""
    shown, every = list(shown), list(every)
    header = ("run", "state", "progress", "seq/s", "loss", "left", "job", "error")
    parts = [table(map(_row, shown), header, "lllrrrll")]
    if len(shown) < len(every):
        parts.append(f"… and {counted(len(every) - len(shown), 'other run')}")
    return "\n".join([*parts, "", _summary(every), *([note] if note else [])])


def _row(each: Seen) -> tuple[str, ...]:
    return (
        each.run,
        each.state,
        f"{_bar(each.sequences, each.total)} {_percent(each.sequences, each.total)}",
        f"{each.rate:,.0f}" if each.rate else NONE,
        NONE if each.loss is None else f"{each.loss:.4f}",
        NONE if each.left is None else duration(each.left),
        each.job.job_id or NONE if each.job else NONE,
        each.error,
    )


def _bar(done: int, total: int, width: int = 8) -> str:
    full = width * done // total
    return "█" * full + "░" * (width - full)


def _percent(done: int, total: int) -> str:
    """The percentage, rounded down: 100% means all."""
    return f"{100 * done // total if total else 100:3d}%"


def _summary(every: Sequence[Seen]) -> str:
    counts = Counter(each.state for each in every)
    states = [
        f"{counts[s]} {s}" for s in reversed(_TELLING) if counts[s] or s == "finished"
    ]
    done, total = (sum(getattr(e, k) for e in every) for k in ("sequences", "total"))
    parts = [
        f"{counted(len(every), 'run')}: {', '.join(states)}",
        f"{_percent(done, total).strip()} of {total:,} sequences",
    ]
    left = _left(every)
    parts += [] if left is None else [f"about {duration(left)} left"]
    return "; ".join(parts)


def _left(every: Iterable[Seen]) -> float | None:
    """The seconds left for all active runs, at the rate of those that run now."""
    active = [each for each in every if each.state in ACTIVE]
    rate = sum(each.rate for each in active)
    if not rate:
        return None
    longest = max(each.left or 0.0 for each in active)
    return max(longest, sum(each.total - each.sequences for each in active) / rate)


def _failures(
    folder: Folder, shown: Iterable[Seen], every: Iterable[Seen], note: str
) -> str:
    """What went wrong with the shown runs, job by job."""
    bad = [
        each for each in shown if each.state in WRONG or each.error.startswith(KILLED)
    ]
    by_job: dict[Job | None, list[Seen]] = {}
    for each in bad:
        by_job.setdefault(each.job, []).append(each)
    parts = [_failure(folder, job, runs) for job, runs in by_job.items()]
    nothing = "no run has failed, was killed or is blocked"
    return "\n".join(["\n\n".join(parts) or nothing, *([note] if note else [])])


def _failure(folder: Folder, job: Job | None, runs: Sequence[Seen]) -> str:
    lines = [f"{each.run}: {each.state}: {each.error}" for each in runs]
    if job is None or not job.job_id or all(each.state == "blocked" for each in runs):
        return "\n".join(lines)
    for kind in ("log.err", "log.out"):
        file = folder.log_file(job, kind)
        if found := last_lines(file, _LOG_LINES):
            shown = [f"  {line}" for line in found]
            return "\n".join([*lines, f"job {job.name}, the end of {file}:", *shown])
    return "\n".join([*lines, f"job {job.name} has no log"])
