"""A launch: what is still to do of a study, packed into jobs, and sent off."""

import dataclasses
import fnmatch
from collections.abc import Mapping, Sequence

from icl import Experiment
from icl._grafts import last_checkpoint
from icl.config import to_json, with_fields
from icl.runs import differences

from ._alive import alive_jobs
from ._estimate import Estimate, estimates, Executor, measured_groups, most_members
from ._folder import Folder, Job
from ._job import Work
from ._needs import needs, with_needed
from ._plan import by_path, Group, groups, pack
from ._study import Trial


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
    costs: dict[str, Estimate]
    """What each takes, as far as it was measured."""


def pinned(
    trials: Sequence[Trial], sets: Sequence[str], folder: Folder
) -> dict[str, Experiment]:
    """The trials' experiments with fields replaced, absolute paths and checkpoints.

    **Raises:** `ValueError` for a field that is not there, and for a run that is not.
    """
    plain = {trial.name: _with(trial, sets) for trial in trials}
    paths = by_path(plain, folder.path)

    def last(path: str) -> int:
        if path not in paths:
            return last_checkpoint(path)
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
    for run in (run for job in queued for run in job.runs if run in chosen):
        _check_planned(folder, run, experiments[run])
    cut = [job for job in made if job.name not in alive and rest & set(job.runs)]
    begun = [again for job in cut if (again := _again(folder, job, rest, experiments))]
    rest -= {run for job in begun for run in job.runs}
    done = [job for job in made if not set(job.runs) & (chosen - set(finished))]
    todo = _only(groups(wanted, folder.path), rest)
    # Those that have begun resume from different points: each alone.
    todo = [
        dataclasses.replace(group, runs=runs)
        for group in todo
        for runs in _apart(folder, group.runs)
    ]
    others = by_path(experiments, folder.path)
    costs = measured_groups(todo, others, members, measure, executor)
    limit = {
        group.runs: most_members(costs.get(group.runs), group, members, executor)
        for group in todo
    }
    kept = [*done, *queued, *begun]
    new = pack(todo, lambda g: limit[g.runs], executor.cpu_devices, kept)
    owner = {run: job.name for job in (*kept, *new) for run in job.runs}
    jobs = [
        dataclasses.replace(job, needs=_before(job, needed, owner, set(finished)))
        for job in _sorted([*begun, *new], needed)
    ]
    found = estimates(jobs, todo, costs, experiments, executor)
    return Launch(
        folder,
        experiments,
        needed,
        tuple(wanted),
        tuple(finished),
        tuple(queued),
        tuple(jobs),
        tuple({job.name for job in made} - {job.name for job in kept}),
        found,
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


def _apart(folder: Folder, runs: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The runs that have not begun together, the others each alone."""
    new = tuple(run for run in runs if not folder.points(run))
    alone = [(run,) for run in runs if run not in new]
    return [new, *alone] if new else alone


def _again(
    folder: Folder, job: Job, rest: set[str], experiments: Mapping[str, Experiment]
) -> Job | None:
    """A job that was cut off, to go on with the members that had begun.

    To the bits, they are one program. `None` if they are finished or have no point in
    common to resume from: then the runs are packed anew.

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
        _check_same(folder, run, experiments[run])
    return dataclasses.replace(job, runs=tuple(points))


def _check_planned(folder: Folder, name: str, experiment: Experiment) -> None:
    """The same of a run that is queued, and may not have a folder yet."""
    planned = folder.read()["runs"].get(name, {})
    lines = list(differences(planned, to_json(experiment)))
    if lines:
        raise ValueError(
            f"{name} is queued with another config: {'; '.join(lines)}; "
            f"python -m sweeps cancel {folder.path} takes it back"
        )


def _with(trial: Trial, sets: Sequence[str]) -> Experiment:
    try:
        return with_fields(trial.experiment, sets)
    except ValueError as error:
        raise ValueError(f"{trial.name}: {error}") from None


def _only(groups: Sequence[Group], rest: set[str]) -> list[Group]:
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
