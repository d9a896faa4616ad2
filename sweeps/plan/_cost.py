"""The cost of a program on this machine's device: measured once, then cached."""

import contextlib
import dataclasses
import hashlib
import json
import multiprocessing
import platform
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, cast

import equinox as eqx
import jax
import platformdirs
from tqdm import tqdm

import opto
from icl import Experiment, Member, Training
from icl.config import from_json, to_json
from icl.devices import divide_cpu
from icl.edits.grafts import loaded, parse_edit, with_models
from icl.files import write_bytes
from icl.plugins import import_plugin, imported
from icl.runs import code_version, read_object
from icl.training.cost import Cost, cost


PROCESS_BYTES = 600 * 2**20
"""The memory of a process without any member: Python, JAX, compiled code."""
_HOST_COPIES = 2
"""On a CPU, a member takes this many times the memory that XLA counts, because logs and
states that are being saved share it (benchmarks/RESULTS.md, Sweeps)."""


@dataclasses.dataclass(frozen=True)
class Program:
    """A program to measure."""

    experiment: Experiment
    members: int
    own_data: bool = False
    """Whether the members have different data."""


def measured(
    wanted: Sequence[Program],
    others: Mapping[str, Experiment],
    cpu_devices: int,
) -> list[Cost]:
    """Measures the cost of each program, or reads it from the cache.

    No other run has to exist: grafted models have the right shapes but are not trained,
    and ranked heads are any heads of the right number. The cache is
    `$XDG_CACHE_HOME/icl-opto`.

    **Arguments:**

    - `others`: As for `program`.
    - `cpu_devices`: The number of devices to make of a CPU's cores.

    **Raises:** `ValueError` for an experiment that cannot be built.
    """
    device = jax.devices()[0].device_kind
    files = [
        _cache() / f"{_digest(program, others, device, cpu_devices)}.json"
        for program in wanted
    ]
    known = {file: cost for file in files if (cost := _read(file)) is not None}
    new = {
        file: program
        for file, program in zip(files, wanted, strict=True)
        if file not in known
    }
    # A separate process: the CPU can be divided only before JAX uses it, and a process
    # gives a GPU's memory back when it ends.
    spawn = multiprocessing.get_context("spawn")
    bar = tqdm(new, desc="measuring", unit="program", disable=None, leave=False)
    try:
        with ProcessPoolExecutor(1, spawn, _begin, (cpu_devices, imported())) as pool:
            for file in bar:
                known[file] = pool.submit(_measure, new[file], dict(others)).result()
                with contextlib.suppress(OSError):  # It is measured again next time.
                    file.parent.mkdir(parents=True, exist_ok=True)
                    write_bytes(file, json.dumps(to_json(known[file])).encode())
    except BrokenProcessPool:
        hint = "there may be too little memory; --members avoids measuring"
        raise ValueError(f"measuring was killed: {hint}") from None
    return [known[file] for file in files]


def _begin(cpu_devices: int, plugins: Sequence[str]) -> None:
    """Prepares the measuring process, before it gets experiments."""
    divide_cpu(cpu_devices)
    for name in plugins:
        import_plugin(name)


def _measure(program: Program, others: Mapping[str, Experiment]) -> Cost:
    member = _untrained(program.experiment, others)
    copies = [_copy(member, program.own_data) for _ in range(program.members)]
    return cost(copies, program.experiment.training)


def _read(file: Path) -> Cost | None:
    try:
        return from_json(Cost, read_object(file))
    except ValueError:
        return None


def seconds(
    cost: Cost, measured_members: int, members: int, devices: int, training: Training
) -> float:
    """The seconds to train so many members: linear in the number on each device."""
    on_each = -(-members // devices) / -(-measured_members // devices)
    looks = len(training.steps_of(training.evaluate_at))
    work = training.num_steps * cost.step + looks * cost.evaluation
    return cost.compile + on_each * work


def bytes_of(cost: Cost, members: int, devices: int, gpu: bool) -> int:
    """The memory that training takes on a device; the devices of a CPU share theirs."""
    if gpu:
        return cost.member_bytes * -(-members // devices) + cost.shared_bytes
    used = devices if cost.sharing > 1 else min(devices, members)
    own = _HOST_COPIES * cost.member_bytes * max(members, used)
    return PROCESS_BYTES + own + cost.shared_bytes * used


def _untrained(experiment: Experiment, others: Mapping[str, Experiment]) -> Member:
    experiment = experiment.with_any_heads()
    bare = dataclasses.replace(experiment, edits=(), start=None)
    member = bare.build()
    edits = tuple(_fresh(text, others) for text in experiment.edits)
    return dataclasses.replace(member, edits=edits)


def _fresh(text: str, others: Mapping[str, Experiment]) -> opto.toolkit.AbstractEdit:
    def model(graft: opto.Graft) -> Callable[..., Any]:
        other = others.get(str(graft.source))
        if other is not None:
            return _untrained(other, others).model
        (whole,) = loaded([graft])
        return cast(opto.Graft, whole).model

    (edit,) = with_models((parse_edit(text),), model)
    return edit


def _copy(member: Member, own_data: bool) -> Member:
    """Another member of the same program: arrays that are not shared are copied."""

    def copied(tree: Any) -> Any:
        return jax.tree.map(lambda x: x.copy() if eqx.is_array(x) else x, tree)

    return dataclasses.replace(
        member,
        model=copied(member.model),
        task=copied(member.task) if own_data else member.task,
        edits=copied(member.edits),
        evaluations=copied(member.evaluations),
    )


def _cache() -> Path:
    return platformdirs.user_cache_path("icl-opto")


def _digest(
    program: Program, others: Mapping[str, Experiment], device: str, cpu_devices: int
) -> str:
    experiment = program.experiment.with_any_heads()
    grafted = [
        to_json(others[path]) for path, _ in experiment.sources() if path in others
    ]
    config = to_json(dataclasses.replace(experiment, start=None))
    here = [platform.node(), device, cpu_devices, jax.__version__, code_version()]
    files = [Path(name) for name in imported() if Path(name).is_file()]
    code = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    key = [config, grafted, program.members, program.own_data, *here, *code]
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
