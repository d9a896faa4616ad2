"""What a program takes on this machine's device: measured once, then remembered."""

import contextlib
import dataclasses
import hashlib
import json
import multiprocessing
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, cast

import equinox as eqx
import jax
from tqdm import tqdm

import opto
from icl import Experiment, Member, Training
from icl.config import from_json, to_json
from icl.edits.grafts import loaded, parse_edit, with_models
from icl.files import write_bytes
from icl.plugins import import_plugin, imported, origin
from icl.runs import code_version, read_object
from icl.training.cost import Cost, cost


PROCESS_BYTES = 600 * 2**20
"""What a process takes before it has any member: Python, JAX, compiled code."""
_HOST_COPIES = 2
"""On a CPU a member takes so many times what XLA counts: logs, and what is being saved,
are memory of the same kind (benchmarks/RESULTS.md, sweeps)."""


@dataclasses.dataclass(frozen=True)
class Program:
    """What is measured."""

    experiment: Experiment
    members: int
    own_data: bool = False
    """Whether the members have different data."""


def measured(
    wanted: Sequence[Program],
    others: Mapping[str, Experiment],
    cpu_devices: int,
) -> list[Cost]:
    """What each program takes.

    Needs no other run: grafted models are of the right shape, and not trained; heads
    are as many as will be found. What was measured is kept in
    `$XDG_CACHE_HOME/icl-opto`.

    **Arguments:**

    - `others`: As for `program`.
    - `cpu_devices`: Over how many the cores of a CPU are divided.

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
    # A process of its own: devices are divided once, before JAX uses them, and what
    # it takes of a GPU's memory it gives back.
    spawn = multiprocessing.get_context("spawn")
    with (
        _killed_is_told(),
        ProcessPoolExecutor(1, spawn, _begin, (cpu_devices, imported())) as pool,
    ):
        bar = tqdm(new, desc="measuring", unit="program", disable=None, leave=False)
        fresh = {
            file: pool.submit(_measure, new[file], dict(others)).result()
            for file in bar
        }
    for file, new_cost in fresh.items():
        with contextlib.suppress(OSError):  # It is measured again next time.
            file.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(file, json.dumps(to_json(new_cost)).encode())
    known |= fresh
    return [known[file] for file in files]


@contextlib.contextmanager
def _killed_is_told() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool:
        wanted = "its memory may not suffice; --members does without"
        raise ValueError(f"measuring was killed: {wanted}") from None


def _begin(cpu_devices: int, plugins: Sequence[str]) -> None:
    """In the process that measures, before it is sent experiments."""
    divide_cpu(cpu_devices)
    for name in plugins:
        import_plugin(name)


def divide_cpu(count: int) -> None:
    """Makes `count` devices of the CPU, as far as JAX has not begun to use it."""
    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", count)


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
    """How long training so many members takes: linear in those on one device."""
    on_each = -(-members // devices) / -(-measured_members // devices)
    looks = len(training.steps_of(training.evaluate_at))
    work = training.num_steps * cost.step + looks * cost.evaluation
    return cost.compile + on_each * work


def bytes_of(cost: Cost, members: int, devices: int, gpu: bool) -> int:
    """Memory that training takes on a device; the devices of a CPU share one."""
    if gpu:
        return cost.member_bytes * -(-members // devices) + cost.shared_bytes
    shared = cost.shared_bytes * min(devices, members)
    return PROCESS_BYTES + _HOST_COPIES * cost.member_bytes * members + shared


def _untrained(experiment: Experiment, others: Mapping[str, Experiment]) -> Member:
    experiment = experiment.with_any_heads()
    bare = dataclasses.replace(experiment, edits=(), start=None)
    member = bare.build()
    edits = tuple(_fresh(text, others) for text in experiment.edits)
    return dataclasses.replace(member, edits=edits)


def _fresh(text: str, others: Mapping[str, Experiment]) -> opto.AbstractEdit:
    def model(graft: opto.Graft) -> Callable[..., Any]:
        other = others.get(str(graft.source))
        if other is not None:
            return _untrained(other, others).model
        (whole,) = loaded([graft])
        return cast(opto.Graft, whole).model

    (edit,) = with_models((parse_edit(text),), model)
    return edit


def _copy(member: Member, own_data: bool) -> Member:
    """A member as another of the program is: what is not shared is another array."""

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
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "icl-opto"


def _digest(
    program: Program, others: Mapping[str, Experiment], device: str, cpu_devices: int
) -> str:
    experiment = program.experiment.with_any_heads()
    grafted = [
        to_json(others[path]) for path, _ in experiment.sources() if path in others
    ]
    config = to_json(dataclasses.replace(experiment, start=None))
    here = [platform.node(), device, cpu_devices, jax.__version__, code_version()]
    code = sorted(_own_code([experiment, *map(parse_edit, experiment.edits)]))
    key = [config, grafted, program.members, program.own_data, *here, *code]
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]


def _own_code(things: Iterable[Any]) -> set[str]:
    """Digests of the files of plug-ins that define configs and edits."""
    found: set[str] = set()
    for thing in things:
        kind = type(thing)
        if dataclasses.is_dataclass(kind):
            if kind.__module__.partition(".")[0] not in ("icl", "opto"):
                file = Path(origin(kind)[0])
                content = file.read_bytes() if file.is_file() else b""
                found.add(hashlib.sha256(content).hexdigest())
            found |= _own_code(getattr(thing, f.name) for f in dataclasses.fields(kind))
        elif isinstance(thing, dict):
            found |= _own_code(thing.values())
        elif isinstance(thing, tuple):
            found |= _own_code(thing)
    return found
