"""What jobs take, and how many members fit in one."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from icl import Experiment

from ._cost import bytes_of, Cost, measured, PROCESS_BYTES, Program, seconds
from ._folder import Folder, Job
from ._job import Work
from ._plan import Group


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
class Estimate:
    """What a job takes."""

    seconds: float
    bytes: int


# Beyond this many members of a program, a step's time is as good as linear in them.
_MEASURED_MEMBERS = 4


def measured_groups(
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
    wanted = [
        Program(group.experiment, count, group.own_data)
        for group, count in zip(alone, counts, strict=True)
    ]
    found = measured(wanted, others, executor.cpu_devices)
    triples = zip(alone, found, counts, strict=True)
    return {group.runs: (cost, count) for group, cost, count in triples}


def most_members(
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


def estimates(
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
