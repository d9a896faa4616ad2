"""A launch: what is still to do of a study, packed into jobs, and sent off."""

import dataclasses
from collections.abc import Mapping, Sequence, Set

from icl import Experiment
from icl.config import to_json
from icl.plugins import imported

from ..folder import Folder, Job
from ..plan import (
    by_path,
    check_same,
    differences,
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
    """What a launch is to do."""

    folder: Folder
    experiments: dict[str, Experiment]
    """Of all runs of the study."""
    needed: dict[str, tuple[str, ...]]
    """The runs that each run needs."""
    chosen: tuple[str, ...]
    """The runs that are wanted, and those they need."""
    finished: tuple[str, ...]
    """Those of them that are."""
    queued: tuple[Job, ...]
    """The jobs that are queued or running already."""
    jobs: tuple[Job, ...]
    """The jobs to start, those before others first."""
    dropped: tuple[str, ...]
    """Jobs that were made before, never began, and are packed anew."""
    costs: dict[str, JobEstimate]
    """What each takes, as far as it was measured."""


def plan(
    folder: Folder,
    asked: Wanted,
    machine: Machine,
    members: int | None,
    measure: bool,
) -> Launch:
    """What a launch is to do; writes nothing.

    **Arguments:**

    - `members`: The most members of a job; `None` is as many as memory allows.
    - `measure`: Whether to measure what jobs take, where that is not needed to pack.

    **Raises:** `ValueError` if a program does not fit the device, or Slurm does not
    answer.
    """
    experiments, needed = asked.experiments, asked.needed
    there = _standing(folder, asked)
    wanted = {n: e for n, e in experiments.items() if n in asked.chosen}
    todo = [
        # Those that have begun resume from different points: each alone.
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
    """What a launch finds: runs and jobs by how far they are."""

    finished: tuple[str, ...]
    """The wanted runs that are."""
    queued: tuple[Job, ...]
    """The jobs that are queued or running, all of them."""
    begun: tuple[Job, ...]
    """Those that were cut off, and go on with the members that had begun."""
    kept: tuple[Job, ...]
    """All whose names stay: these, and those with which a launch has nothing to do."""
    dropped: tuple[str, ...]
    """The names of the others."""
    rest: frozenset[str]
    """The wanted runs that are in no job yet."""


def _standing(folder: Folder, asked: Wanted) -> _Standing:
    experiments, chosen = asked.experiments, asked.chosen
    wanted = {n: e for n, e in experiments.items() if n in chosen}
    finished = [n for n, e in wanted.items() if folder.finished(n, e)]
    made = list(folder.jobs.values()) if folder.sweep.is_dir() else []
    alive = alive_jobs(made)
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
    """The jobs of a launch as they are sent to their processes."""
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
    """The same of runs that are queued, and may not have folders yet."""
    planned = folder.read()["runs"] if queued else {}
    for name, experiment in queued.items():
        if found := differences(planned.get(name, {}), experiment):
            raise ValueError(
                f"{name} is queued with another config: {found}; "
                f"python -m sweeps cancel {folder.path} takes it back"
            )


def _apart(folder: Folder, runs: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The runs that have not begun together, the others each alone."""
    new = tuple(run for run in runs if not folder.points(run))
    alone = [(run,) for run in runs if run not in new]
    return [new, *alone] if new else alone


def _again(
    folder: Folder,
    job: Job,
    rest: Set[str],
    experiments: Mapping[str, Experiment],
) -> Job | None:
    """A job that was cut off, to go on with the members that had begun.

    To the bits, they are one program. Killed as it began, it keeps those that had not:
    all start together. `None` if the members are finished or have no point in common
    to resume from: then the runs are packed anew.

    **Raises:** `ValueError` if one is not in the study any more, or has changed.
    """
    points = {run: at for run in job.runs if (at := folder.points(run))}
    if not rest & points.keys() or not set.intersection(*points.values()):
        return None
    for run in points:
        if run not in experiments:
            raise ValueError(
                f"{run} has begun in one job with others, and is not in the study any "
                f"more; give it back, or delete {folder.run(run)}"
            )
        check_same(folder, run, experiments[run])
    kept = {*points}
    if all(at == {0} for at in points.values()):
        planned = folder.read()["runs"]
        kept |= {
            run
            for run in rest & {*job.runs}
            if not differences(planned.get(run, {}), experiments[run])
        }
    return dataclasses.replace(job, runs=tuple(r for r in job.runs if r in kept))


def _only(groups: Sequence[Group], rest: Set[str]) -> list[Group]:
    """The groups without the runs that are not in `rest`."""
    cut = (
        dataclasses.replace(group, runs=tuple(r for r in group.runs if r in rest))
        for group in groups
    )
    return [group for group in cut if group.runs]


def _sorted(jobs: list[Job], needed: Mapping[str, tuple[str, ...]]) -> list[Job]:
    """Those before others first."""
    owner = {run: job.name for job in jobs for run in job.runs}
    before = {
        job.name: {owner[n] for r in job.runs for n in needed[r] if n in owner}
        for job in jobs
    }
    done: list[Job] = []
    names: set[str] = set()
    left = list(jobs)
    while left:
        ready = [job for job in left if before[job.name] <= names | {job.name}]
        if not ready:
            names_left = ", ".join(job.name for job in left)
            raise ValueError(f"no job can be first of {names_left}")
        # Those that need the same, side by side: they become one array.
        done += sorted(ready, key=lambda job: (sorted(before[job.name]), job.name))
        names |= {job.name for job in ready}
        left = [job for job in left if job not in ready]
    return done


def _before(
    job: Job,
    needed: Mapping[str, tuple[str, ...]],
    owner: Mapping[str, str],
    finished: set[str],
) -> tuple[str, ...]:
    needs = {need for run in job.runs for need in needed[run]} - finished
    names = {owner[need] for need in needs if need in owner}
    return tuple(sorted(names - {job.name}))
