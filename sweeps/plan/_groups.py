"""Groups runs by program, and packs groups into jobs."""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path

from icl import Experiment

from ..folder import Job
from ._needs import levels
from ._program import program


@dataclasses.dataclass(frozen=True)
class Group:
    """Runs of one program that may start at the same time."""

    runs: tuple[str, ...]
    experiment: Experiment
    """The experiment of the first run; the programs of the others cost the same."""
    own_data: bool
    """Whether the runs have different data of one shape, rather than the same data."""


def groups(
    experiments: Mapping[str, Experiment],
    needed: Mapping[str, tuple[str, ...]],
    folder: Path,
) -> list[Group]:
    """Groups the runs by program; a group comes after the groups that it needs.

    **Arguments:**

    - `needed`: The runs that each run needs; all are in `experiments`.
    """
    level = levels({name: needed[name] for name in experiments})
    others = by_path(experiments, folder)
    together: dict[Hashable, list[str]] = defaultdict(list)
    for name, experiment in experiments.items():
        together[level[name], program(experiment, others)].append(name)
    found = [
        Group(
            tuple(names),
            experiments[names[0]],
            len({experiments[name].data for name in names}) > 1,
        )
        for names in together.values()
    ]
    return sorted(found, key=lambda group: level[group.runs[0]])


def by_path(
    experiments: Mapping[str, Experiment], folder: Path
) -> dict[str, Experiment]:
    """The experiments by the absolute paths of their run folders."""
    return {str(folder / name): e for name, e in experiments.items()}


def pack(
    groups: Sequence[Group],
    most: Callable[[Group], int],
    devices: int,
    kept: Sequence[Job],
) -> list[Job]:
    """Divides groups into jobs of about equal size; their needs are filled in later.

    **Arguments:**

    - `most`: How many members of a group fit in one job.
    - `devices`: How many devices a job may make of a CPU's cores.
    - `kept`: Earlier jobs, whose names are taken.
    """
    jobs: list[Job] = []
    first = 1 + max((int(job.name) for job in kept), default=-1)
    for group in groups:
        for runs in _chunks(group.runs, most(group)):
            name = f"{first + len(jobs):03d}"
            jobs.append(Job(name, runs, (), devices))
    return jobs


def _chunks(runs: tuple[str, ...], most: int) -> list[tuple[str, ...]]:
    count = math.ceil(len(runs) / most)
    edges = [len(runs) * k // count for k in range(count + 1)]
    return [runs[a:b] for a, b in zip(edges, edges[1:], strict=False)]
