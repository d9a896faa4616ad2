"""A launch: what is still to do of a study, packed into jobs, and sent off."""

import dataclasses
import fnmatch
import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from icl import Experiment, Run
from icl.config import to_json, with_fields
from icl.runs import differences

from ._alive import alive_jobs
from ._cost import bytes_of, Cost, measured, PROCESS_BYTES, seconds
from ._folder import Folder, Job
from ._job import Work
from ._needs import needs, with_needed
from ._plan import by_path, Group, groups, pack
from ._study import Trial


class Executor(Protocol):
    """Where jobs run."""

    name: str

    @property
    def devices(self) -> int:
        """Over how many devices a job's members are spread."""
        ...

    @property
    def cpu_devices(self) -> int:
        """Of a CPU's cores, how many devices a job may make."""
        ...

    @property
    def device_bytes(self) -> int:
        """Memory of a device."""
        ...

    def start(self, folder: Folder, works: Sequence[Work], study: str) -> bool:
        """Trains or submits the jobs; whether all went well."""
        ...


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
    costs: dict[str, "Estimate"]
    """What each takes, as far as it was measured."""


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a job takes."""

    seconds: float
    bytes: int


def pinned(trials: Sequence[Trial], sets: Sequence[str], folder: Folder):
    """The trials' experiments with fields replaced, absolute paths and checkpoints.

    **Raises:** `ValueError` for a field that is not there, and for a run that is not.
    """
    plain = {t.name: with_fields(t.experiment, sets) for t in trials}
    paths = by_path(plain, folder.path)

    def last(path: str) -> int:
        if path not in paths:
            return Run(path).find(-1)
        training = paths[path].training
        steps = training.steps_of(training.checkpoint_at)
        return max((step * training.batch_size for step in steps), default=-1)

    found = {}
    for name, experiment in plain.items():
        try:
            found[name] = experiment.pinned(last)
        except ValueError as error:
            wanted = f"{name} needs a missing checkpoint"
            raise ValueError(f"{wanted}: {error}") from None
    return found


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What is asked of a launch."""

    experiments: dict[str, Experiment]
    """Of all runs of the study."""
    needed: dict[str, tuple[str, ...]]
    """The runs that each run needs."""
    chosen: frozenset[str]
    """The runs that are wanted, and those they need."""


def wanted(
    folder: Folder, experiments: dict[str, Experiment], only: Sequence[str]
) -> Wanted:
    """What is asked of a launch, checked; writes nothing.

    **Arguments:**

    - `only`: Patterns of the names of the runs that are wanted; none means all.

    **Raises:** `ValueError` if a run's folder holds another config, a needed run or
    checkpoint is missing, runs need each other, or no run is chosen.
    """
    needed = needs(experiments, folder.path)
    chosen = with_needed(_chosen(only, experiments), needed)
    for name in chosen:
        _check_same(folder, name, experiments[name])
    return Wanted(experiments, needed, frozenset(chosen))


def plan(
    folder: Folder,
    asked: Wanted,
    executor: Executor,
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
    experiments, needed, chosen = asked.experiments, asked.needed, asked.chosen
    wanted = {name: e for name, e in experiments.items() if name in chosen}
    finished = [n for n, e in wanted.items() if folder.finished(n, e)]
    made = list(folder.jobs.values()) if folder.sweep.is_dir() else []
    alive = alive_jobs(made)
    queued = [job for job in made if job.name in alive]
    rest = wanted.keys() - set(finished) - {run for job in queued for run in job.runs}
    # Members of a job that has begun stay together: to the bits, it is one program.
    begun = [
        job
        for job in made
        if job.name not in alive
        and rest & set(job.runs)
        and any(folder.config(run) for run in job.runs)
    ]
    rest -= {run for job in begun for run in job.runs}
    done = [job for job in made if not set(job.runs) & (chosen - set(finished))]
    todo = _only(groups(wanted, folder.path), rest)
    others = by_path(experiments, folder.path)
    costs = _measured(todo, others, members, measure, executor)
    limit = {
        group.runs: _most(costs.get(group.runs), group, members, executor)
        for group in todo
    }
    kept = [*done, *queued, *begun]
    new = pack(todo, lambda g: limit[g.runs], executor.cpu_devices, needed, kept)
    owner = {run: job.name for job in (*kept, *new) for run in job.runs}
    jobs = [
        dataclasses.replace(job, needs=_before(job, needed, owner, set(finished)))
        for job in _sorted([*begun, *new], needed)
    ]
    estimates = _estimates(jobs, todo, costs, experiments, executor)
    return Launch(
        folder,
        experiments,
        needed,
        tuple(wanted),
        tuple(finished),
        tuple(queued),
        tuple(jobs),
        tuple({job.name for job in made} - {job.name for job in kept}),
        estimates,
    )


def works(launch: Launch, logger: str) -> list[Work]:
    """The jobs of a launch as they are sent to their processes."""
    return [
        Work(
            launch.folder.path,
            job,
            {run: to_json(launch.experiments[run]) for run in job.runs},
            logger,
        )
        for job in launch.jobs
    ]


def _chosen(only: Sequence[str], experiments: Mapping[str, Experiment]) -> set[str]:
    if not only:
        return set(experiments)
    found: set[str] = set()
    for pattern in only:
        some = set(fnmatch.filter(experiments, pattern))
        if not some:
            known = ", ".join(list(experiments)[:8])
            more = ", …" if len(experiments) > 8 else ""
            raise ValueError(f"--only: no run matches {pattern!r}; runs: {known}{more}")
        found |= some
    return found


def _check_same(folder: Folder, name: str, experiment: Experiment) -> None:
    there = folder.config(name)
    if there is None:
        return
    lines = list(differences(there, to_json(experiment)))
    if lines:
        raise ValueError(
            f"{folder.run(name)} holds a run of another config: {'; '.join(lines)}"
        )


def _only(groups: Sequence[Group], rest: set[str]) -> list[Group]:
    """The groups without the runs that are not in `rest`."""
    cut = (
        dataclasses.replace(group, runs=tuple(r for r in group.runs if r in rest))
        for group in groups
    )
    return [group for group in cut if group.runs]


# Beyond this many members of a program, a step's time is as good as linear in them.
_MEASURED_MEMBERS = 4


def _measured(
    todo: Sequence[Group],
    others: Mapping[str, Experiment],
    members: int | None,
    measure: bool,
    executor: Executor,
) -> dict[tuple[str, ...], tuple[Cost, int]]:
    """What each group's program takes, measured with so many members."""
    if members is not None and not measure:
        return {}
    alone = [group for group in todo if measure or len(group.runs) > 1]
    most = min(members or _MEASURED_MEMBERS, _MEASURED_MEMBERS)
    counts = [min(len(group.runs), most) for group in alone]
    wanted = [(g.experiment, n) for g, n in zip(alone, counts, strict=True)]
    found = measured(wanted, others, executor.cpu_devices)
    triples = zip(alone, found, counts, strict=True)
    return {group.runs: (cost, count) for group, cost, count in triples}


def _most(
    cost: tuple[Cost, int] | None,
    group: Group,
    members: int | None,
    executor: Executor,
) -> int:
    """How many members of a group a job may have."""
    asked = members or len(group.runs)
    if cost is None:
        return asked
    found, _ = cost
    # A fifth is left free: what XLA says is not all that a process takes.
    free = 0.8 * executor.device_bytes - found.shared_bytes
    if executor.cpu_devices > 1:
        free -= PROCESS_BYTES + found.shared_bytes * (executor.cpu_devices - 1)
        on_each, devices = free / max(1, found.member_bytes), 1
    else:
        on_each, devices = free / max(1, found.member_bytes), executor.devices
    fits = math.floor(on_each) * devices
    if fits < 1:
        need = (found.member_bytes + found.shared_bytes) / 2**30
        has = executor.device_bytes / 2**30
        raise ValueError(
            f"{group.runs[0]} takes {need:.1f} GiB, more than a device has to give "
            f"({has:.1f} GiB)"
        )
    return min(asked, fits)


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
    names = {
        owner[need] for run in job.runs for need in needed[run] if need not in finished
    }
    return tuple(sorted(names - {job.name}))


def _estimates(
    jobs: Sequence[Job],
    todo: Sequence[Group],
    costs: Mapping[tuple[str, ...], tuple[Cost, int]],
    experiments: Mapping[str, Experiment],
    executor: Executor,
) -> dict[str, Estimate]:
    of_run = {run: costs.get(group.runs) for group in todo for run in group.runs}
    found = {}
    for job in jobs:
        if (cost := of_run.get(job.runs[0])) is not None:
            measured_cost, count = cost
            members = len(job.runs)
            found[job.name] = Estimate(
                seconds(measured_cost, count, members, experiments[job.runs[0]]),
                bytes_of(measured_cost, members, executor.devices),
            )
    return found
