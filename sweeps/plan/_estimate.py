"""The cost of jobs, and how many members fit in one."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

from icl import Experiment

from ..folder import Job
from ._cost import bytes_of, Cost, measured, Program, seconds
from ._groups import Group


class Machine(Protocol):
    """What a job runs on."""

    @property
    def gpu(self) -> bool:
        """Whether the devices are GPUs, each with its own memory."""
        ...

    @property
    def devices(self) -> int:
        """The number of devices that a job's members are spread over."""
        ...

    @property
    def cpu_devices(self) -> int:
        """How many devices a job may make of a CPU's cores."""
        ...

    @property
    def device_bytes(self) -> int:
        """Memory of a device."""
        ...


@dataclasses.dataclass(frozen=True)
class JobEstimate:
    """The cost of a job: seconds, and bytes of a device's memory."""

    seconds: float
    bytes: int


# Above this many members, the time of a program's step is nearly linear in them.
_MEASURED_MEMBERS = 4


def measured_groups(
    todo: Sequence[Group],
    others: Mapping[str, Experiment],
    members: int | None,
    measure: bool,
    machine: Machine,
) -> dict[tuple[str, ...], tuple[Cost, int]]:
    """The cost of each group's program, and the members it was measured with."""
    if members is not None and not measure:
        return {}
    chosen = [group for group in todo if measure or len(group.runs) > 1]
    most = min(members or _MEASURED_MEMBERS, _MEASURED_MEMBERS)
    counts = [min(len(group.runs), most) for group in chosen]
    # As `pack` divides them, if there are more than devices.
    each = machine.cpu_devices
    counts = [n // each * each or n for n in counts]
    wanted = [
        Program(group.experiment, count, group.own_data)
        for group, count in zip(chosen, counts, strict=True)
    ]
    found = measured(wanted, others, machine.cpu_devices)
    triples = zip(chosen, found, counts, strict=True)
    return {group.runs: (cost, count) for group, cost, count in triples}


def most_members(
    cost: tuple[Cost, int] | None,
    group: Group,
    members: int | None,
    machine: Machine,
) -> int:
    """How many members of a group fit in one job."""
    asked = members or len(group.runs)
    if cost is None:
        return asked
    # A fifth stays free, as a process takes more memory than XLA says.
    free = 0.8 * machine.device_bytes
    for count in range(asked, 0, -1):
        if _bytes(cost[0], count, machine) <= free:
            return count
    need, has = _bytes(cost[0], 1, machine) / 2**30, machine.device_bytes / 2**30
    raise ValueError(
        f"{group.runs[0]} takes {need:.1f} GiB, but a job may take only four fifths "
        f"of {has:.1f} GiB"
    )


def _bytes(cost: Cost, members: int, machine: Machine) -> int:
    return bytes_of(cost, members, machine.devices, machine.gpu)


def estimates(
    jobs: Sequence[Job],
    todo: Sequence[Group],
    costs: Mapping[tuple[str, ...], tuple[Cost, int]],
    experiments: Mapping[str, Experiment],
    machine: Machine,
) -> dict[str, JobEstimate]:
    """The estimate of each job whose program was measured, by name."""
    of_run = {run: costs.get(group.runs) for group in todo for run in group.runs}
    found = {}
    for job in jobs:
        if (cost := of_run.get(job.runs[0])) is not None:
            measured_cost, count = cost
            members = len(job.runs)
            training = experiments[job.runs[0]].training
            found[job.name] = JobEstimate(
                seconds(measured_cost, count, members, machine.devices, training),
                _bytes(measured_cost, members, machine),
            )
    return found
