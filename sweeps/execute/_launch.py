"""The plan of a launch: the runs still to train, packed into jobs."""

import dataclasses
from collections.abc import Mapping, Sequence, Set
from graphlib import CycleError, TopologicalSorter

from icl import Experiment
from icl.config import to_json
from icl.plugins import imported

from ..folder import Folder, Job
from ..plan import (
    by_path,
    check_same,
    differs_from,
    estimates,
    Group,
    groups,
    JobEstimate,
    Machine,
    measured_groups,
    most_members,
    pack,
    Wanted,
)
from ._alive import alive_jobs
from ._job import Work


@dataclasses.dataclass(frozen=True)
class Launch:
    """The plan of a launch."""

    folder: Folder
    experiments: dict[str, Experiment]
    """The experiments of all runs of the study."""
    needed: dict[str, tuple[str, ...]]
    """The runs that each run needs."""
    chosen: tuple[str, ...]
    """The wanted runs, and the runs that they need."""
    finished: tuple[str, ...]
    """The chosen runs that are finished."""
    queued: tuple[Job, ...]
    """The jobs that are queued or running already."""
    jobs: tuple[Job, ...]
    """The jobs to start; each comes after the jobs that it needs."""
    dropped: tuple[str, ...]
    """The names of earlier jobs whose unfinished runs are packed anew."""
    costs: dict[str, JobEstimate]
    """The estimate of each job that was measured, by name."""


def plan(
    folder: Folder,
    asked: Wanted,
    machine: Machine,
    members: int | None,
    measure: bool,
) -> Launch:
    """Plans a launch; writes nothing.

    **Arguments:**

    - `members`: The largest number of members of a job; `None` means as many as memory
        allows.
    - `measure`: Whether to measure the cost of jobs that can be packed without it.

    **Raises:** `ValueError` if a program does not fit the device, or Slurm does not
    answer.
    """
    experiments, needed = asked.experiments, asked.needed
    there = _standing(folder, asked)
    wanted = {n: e for n, e in experiments.items() if n in asked.chosen}
    todo = [
        # Runs that have begun resume from different points: each trains alone.
        dataclasses.replace(group, runs=runs)
        for group in _only(groups(wanted, needed, folder.path), there.rest)
        for runs in _apart(folder, group.runs)
    ]
    others = by_path(experiments, folder.path)
    costs = measured_groups(todo, others, members, measure, machine)
    limit = {
        group.runs: most_members(costs.get(group.runs), group, members, machine)
        for group in todo
    }
    new = pack(todo, lambda g: limit[g.runs], machine.cpu_devices, there.kept)
    owner = {run: job.name for job in (*there.kept, *new) for run in job.runs}
    jobs = [
        dataclasses.replace(job, needs=_before(job, needed, owner, {*there.finished}))
        for job in _sorted([*there.begun, *new], needed)
    ]
    return Launch(
        folder,
        experiments,
        needed,
        tuple(wanted),
        there.finished,
        there.queued,
        tuple(jobs),
        there.dropped,
        estimates(jobs, todo, costs, experiments, machine),
    )


@dataclasses.dataclass(frozen=True)
class _Standing:
    """What a launch finds: runs and jobs by their progress."""

    finished: tuple[str, ...]
    """The wanted runs that are finished."""
    queued: tuple[Job, ...]
    """All jobs that are queued or running."""
    begun: tuple[Job, ...]
    """Jobs that were cut off and resume with the members that had begun."""
    kept: tuple[Job, ...]
    """All jobs that stay: `queued`, `begun`, and those that the launch leaves alone."""
    dropped: tuple[str, ...]
    """The names of the other jobs."""
    rest: frozenset[str]
    """The unfinished wanted runs that are in neither `queued` nor `begun`."""


def _standing(folder: Folder, asked: Wanted) -> _Standing:
    experiments, chosen = asked.experiments, asked.chosen
    wanted = {n: e for n, e in experiments.items() if n in chosen}
    made = list(folder.jobs.values()) if folder.sweep.is_dir() else []
    # The queue before the runs: a job may end in between, and its runs are finished.
    alive = alive_jobs(made)
    finished = [n for n, e in wanted.items() if folder.finished(n, e)]
    queued = [job for job in made if job.name in alive]
    held = {run for job in queued for run in job.runs}
    _check_planned(folder, {n: e for n, e in wanted.items() if n in held})
    rest = chosen - {*finished} - held
    cut = [job for job in made if job.name not in alive and rest & {*job.runs}]
    begun = [again for job in cut if (again := _again(folder, job, rest, experiments))]
    done = [job for job in made if not {*job.runs} & (chosen - {*finished})]
    kept = [*done, *queued, *begun]
    return _Standing(
        tuple(finished),
        tuple(queued),
        tuple(begun),
        tuple(kept),
        tuple({job.name for job in made} - {job.name for job in kept}),
        rest - {run for job in begun for run in job.runs},
    )


def works(launch: Launch, logger: str) -> list[Work]:
    """The jobs of a launch in the form that is sent to their processes."""
    return [
        Work(
            launch.folder.path,
            job,
            {run: to_json(launch.experiments[run]) for run in job.runs},
            logger,
            imported(),
        )
        for job in launch.jobs
    ]


def _check_planned(folder: Folder, queued: Mapping[str, Experiment]) -> None:
    """Raises `ValueError` if a queued run was planned with another config.

    A queued run may not have a folder yet, so its planned config is compared.
    """
    planned = folder.read()["runs"] if queued else {}
    for name, experiment in queued.items():
        if found := differs_from(planned.get(name, {}), experiment):
            raise ValueError(
                f"{name} is queued with another config: {found}; "
                f"cancel it with python -m sweeps cancel {folder.path}"
            )


def _apart(folder: Folder, runs: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Groups the runs that have not begun; each run that has begun is alone."""
    new = tuple(run for run in runs if not folder.points(run))
    alone = [(run,) for run in runs if run not in new]
    return [new, *alone] if new else alone


def _again(
    folder: Folder,
    job: Job,
    rest: Set[str],
    experiments: Mapping[str, Experiment],
) -> Job | None:
    """A job that was cut off, with the members that had begun; it resumes them.

    They stay one program, so that they resume to the same bits. If all of them are
    still at their start, members that had not begun stay too. `None` if no begun member
    is left to train, or they have no resume point in common: then the runs are packed
    anew.

    **Raises:** `ValueError` if a begun member is no longer in the study, or changed.
    """
    points = {run: at for run in job.runs if (at := folder.points(run))}
    if not rest & points.keys() or not set.intersection(*points.values()):
        return None
    for run in points:
        if run not in experiments:
            raise ValueError(
                f"{run} has begun in one job with others, and is no longer in the "
                f"study; put it back, or delete {folder.run(run)}"
            )
        check_same(folder, run, experiments[run])
    kept = {*points}
    if all(at == {0} for at in points.values()):
        planned = folder.read()["runs"]
        kept |= {
            run
            for run in rest & {*job.runs}
            if not differs_from(planned.get(run, {}), experiments[run])
        }
    return dataclasses.replace(job, runs=tuple(r for r in job.runs if r in kept))


def _only(groups: Sequence[Group], rest: Set[str]) -> list[Group]:
    """The groups, reduced to the runs in `rest`."""
    cut = (
        dataclasses.replace(group, runs=tuple(r for r in group.runs if r in rest))
        for group in groups
    )
    return [group for group in cut if group.runs]


def _sorted(jobs: list[Job], needed: Mapping[str, tuple[str, ...]]) -> list[Job]:
    """Sorts jobs so that each comes after the jobs that it needs."""
    owner = {run: job.name for job in jobs for run in job.runs}
    by_name = {job.name: job for job in jobs}
    before = {
        name: {owner[n] for r in job.runs for n in needed[r] if n in owner} - {name}
        for name, job in by_name.items()
    }
    sorter = TopologicalSorter(before)
    try:
        sorter.prepare()
    except CycleError as error:
        names = ", ".join(sorted({*error.args[1]}))
        raise ValueError(f"jobs need each other, so none can start: {names}") from None
    done: list[str] = []
    while sorter.is_active():
        ready = sorter.get_ready()
        # Jobs with the same needs are neighbours: they become one array.
        done += sorted(ready, key=lambda name: (sorted(before[name]), name))
        sorter.done(*ready)
    return [by_name[name] for name in done]


def _before(
    job: Job,
    needed: Mapping[str, tuple[str, ...]],
    owner: Mapping[str, str],
    finished: set[str],
) -> tuple[str, ...]:
    needs = {need for run in job.runs for need in needed[run]} - finished
    names = {owner[need] for need in needs if need in owner}
    return tuple(sorted(names - {job.name}))
