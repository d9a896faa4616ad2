"""Which runs are one job, and which jobs come before it."""

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
    """That of the first: what its program takes, each of the others' takes."""
    own_data: bool
    """Whether they have different data of one shape, rather than the same."""


def groups(
    experiments: Mapping[str, Experiment],
    needed: Mapping[str, tuple[str, ...]],
    folder: Path,
) -> list[Group]:
    """The runs by program, those before others first.

    **Arguments:**

    - `needed`: The runs that each of them needs, which are among them.
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
    """Divides groups into jobs, as even as can be; what each needs is said later.

    **Arguments:**

    - `most`: How many members of a group a job may have.
    - `devices`: Of a CPU's cores, how many a job may use.
    - `kept`: Jobs that were made before; their names are taken.
    """
    jobs: list[Job] = []
    first = 1 + max((int(job.name) for job in kept), default=-1)
    for group in groups:
        for runs in _chunks(group.runs, most(group)):
            name = f"{first + len(jobs):03d}"
            jobs.append(Job(name, runs, (), min(devices, len(runs))))
    return jobs


def _chunks(runs: tuple[str, ...], most: int) -> list[tuple[str, ...]]:
    count = math.ceil(len(runs) / most)
    edges = [len(runs) * k // count for k in range(count + 1)]
    return [runs[a:b] for a, b in zip(edges, edges[1:], strict=False)]
