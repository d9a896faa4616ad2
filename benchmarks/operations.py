"""Where the time of a training step goes; `python benchmarks/operations.py`.

The program that `fit` runs is profiled on one device, for one member and for eight, at
the settings of `train_step.py`. Each operation's own time, without the operations
inside it, is added up by phase and kind. The phases are in the compiled program:
`sample` and `optimizer` are named scopes of the training step, and JAX marks what
differentiation adds as a transpose. Kinds are what the operation's own program has:

- *products* of matrices;
- *functions*: exponentials, tanh, logarithms, roots and powers;
- *sums* over an axis;
- *copies* that move or transpose, and compute nothing;
- *other*: additions, products of numbers, comparisons.

The second table is what the arithmetic alone would take: the products at the rate of a
1024^3 float32 product, the functions at the rate of a long array, both measured in the
same process. A profile itself costs time, so compare its rows with each other. The last
line is the time of a step without it; `torch_step.py` has the same of PyTorch.
"""

import argparse
import collections
import dataclasses
import math
import re
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from train_step import matmul_cpu_seconds, setting, STEPS

from icl.experiments import Experiment
from icl.training import _steps
from icl.training._members import Members


PHASES = ("sample", "forward", "backward", "optimizer", "loop and copies")
KINDS = ("products", "functions", "sums", "copies", "other")
FUNCTIONS = {
    "exponential": jnp.exp,
    "tanh": jnp.tanh,
    "log": jnp.log,
    "log-plus-one": jnp.log1p,
    "sqrt": jnp.sqrt,
    "rsqrt": jax.lax.rsqrt,
    "power": lambda x: x**1.7,
    "cosine": jnp.cos,
    "sine": jnp.sin,
    "erf": jax.lax.erf,
}
"""By their name in the program. None is a polynomial only: each costs some products."""
_MOVES = {
    *("copy", "transpose", "bitcast", "broadcast", "slice", "concatenate", "pad"),
    *("parameter", "constant", "reshape", "get-tuple-element", "iota", "tuple"),
}
_INSTRUCTION = re.compile(
    r"^\s*(?:ROOT )?%?(?P<name>[\w.-]+) = (?P<shape>\(.*?\)|\S+) (?P<code>[\w-]+)\("
    r"(?P<operands>[^)]*)\)(?P<rest>.*)$"
)
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$")


@dataclasses.dataclass
class Operation:
    """What the compiled program says about one of its operations."""

    phase: str
    codes: set[str]
    """The names of what it does."""
    flops: int
    """Of the matrix products in it; 0 if it has none."""
    functions: collections.Counter
    """How many values of each of `FUNCTIONS` it computes."""

    @property
    def kind(self) -> str:
        """One of `KINDS`, the dearest that it has."""
        if self.codes & {"dot", "convolution"}:
            return "products"
        if self.functions:
            return "functions"
        if self.codes & {"reduce", "reduce-window"}:
            return "sums"
        return "copies" if self.codes <= _MOVES else "other"


def compiled_steps(experiment: Experiment, members: int) -> tuple[Any, tuple[Any, ...]]:
    """The compiled training program of some members, and its arguments."""
    base, training = experiment.build(), experiment.training
    chosen = [dataclasses.replace(base, train_seed=seed) for seed in range(members)]
    together = Members(chosen)
    size = training.batch_size
    state = together.stack([_steps.initial_state(m, size) for m in chosen])
    arguments = together._own, state, together._shared
    jitted = together._jitted(_steps.stepper(training))
    return jitted.lower(*arguments, jnp.int32(1)).compile(), arguments


def operations(text: str) -> dict[str, Operation]:
    """The operations of a compiled program's text by name."""
    inside: dict[str, list[re.Match]] = collections.defaultdict(list)
    shapes: dict[str, list[int]] = {}
    computation = ""
    for line in text.splitlines():
        if found := _COMPUTATION.match(line):
            computation = found[1]
        elif found := _INSTRUCTION.match(line):
            inside[computation].append(found)
            shapes[found["name"]] = _sizes(found["shape"])
    return {
        line["name"]: _operation(line, inside, shapes)
        for lines in list(inside.values())
        for line in lines
    }


def _operation(line: re.Match, inside: dict, shapes: dict) -> Operation:
    called = re.search(r"(?:calls|to_apply)=%?([\w.-]+)", line["rest"])
    lines = [line, *(inside[called[1]] if called else [])]
    codes = {each["code"] for each in lines} - {"fusion", "call"}
    functions: collections.Counter = collections.Counter()
    flops = 0
    for each in lines:
        size = math.prod(shapes[each["name"]])
        if each["code"] in FUNCTIONS:
            functions[each["code"]] += size
        if each["code"] == "dot":
            left = shapes[re.findall(r"%([\w.-]+)", each["operands"])[0]]
            over = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", each["rest"])
            summed = over[1].split(",") if over and over[1] else []
            flops += 2 * size * math.prod(left[int(axis)] for axis in summed)
    return Operation(_phase(line["rest"]), codes, flops, functions)


def _sizes(shape: str) -> list[int]:
    found = re.match(r"\w+\[([\d,]*)\]", shape)
    return [int(size) for size in found[1].split(",") if size] if found else []


def _phase(line: str) -> str:
    found = re.search(r'op_name="([^"]*)"', line)
    name = found[1] if found else ""
    if "transpose(" in name:
        return "backward"
    if "sample" in name:
        return "sample"
    if "optimizer" in name:
        return "optimizer"
    return "forward" if "jvp(" in name else "loop and copies"


def profile(
    compiled: Any, arguments: tuple[Any, ...], steps: int
) -> tuple[collections.Counter, collections.Counter]:
    """Each operation's own nanoseconds in so many steps, and how often it ran."""
    count = jnp.int32(steps)
    jax.block_until_ready(compiled(*arguments, count))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(compiled(*arguments, count))
        (file,) = Path(folder).rglob("*.xplane.pb")
        data = jax.profiler.ProfileData.from_file(str(file))
        lines = [line for plane in data.planes for line in plane.lines]
        own: collections.Counter = collections.Counter()
        times: collections.Counter = collections.Counter()
        for line in lines:
            events = [e for e in line.events if "hlo_op" in dict(e.stats)]
            own.update(_own_times(events))
            times.update(event.name for event in events)
    return own, times


def _own_times(events: Iterable[Any]) -> collections.Counter:
    """Each event's time by name, less that of the events inside it."""
    own: collections.Counter = collections.Counter()
    around: list[Any] = []
    for event in sorted(events, key=lambda e: (e.start_ns, -e.duration_ns)):
        while around and around[-1].start_ns + around[-1].duration_ns <= event.start_ns:
            around.pop()
        own[event.name] += event.duration_ns
        if around:
            own[around[-1].name] -= event.duration_ns
        around.append(event)
    return own


def nanoseconds(function: Any, size: int = 2**18, repeats: int = 20) -> float:
    """The time of one value of a function, in an array that fits the cache."""
    x = jnp.linspace(0.1, 2.0, size)
    compiled = jax.jit(function)
    compiled(x).block_until_ready()
    start = time.process_time()
    for _ in range(repeats):
        compiled(x).block_until_ready()
    return 1e9 * (time.process_time() - start) / repeats / size


def cpu_ms(compiled: Any, arguments: tuple[Any, ...], steps: int) -> float:
    """CPU time of a step in ms, without a profile: the least of some rounds."""
    spent = []
    for _ in range(6):
        start = time.process_time()
        jax.block_until_ready(compiled(*arguments, jnp.int32(steps)))
        spent.append(time.process_time() - start)
    return 1e3 * min(spent) / steps


def tables(name: str, members: int, steps: int) -> None:
    """Prints the phases of a step of each member, and the time of its arithmetic."""
    compiled, arguments = compiled_steps(setting(name), members)
    known = operations(compiled.as_text())
    own, times = profile(compiled, arguments, steps)
    each = 1e3 * steps * members  # From nanoseconds of all to microseconds of one.
    print(f"\n{name}, members: {members}; microseconds of one step of one member\n")
    print(f"| phase | all | {' | '.join(KINDS)} | operations |")
    print("| --- |" + (len(KINDS) + 2) * " --: |")
    rows = [(phase, [n for n in own if known[n].phase == phase]) for phase in PHASES]
    whole = sum(own.values()) / each
    for phase, names in [*rows, ("step", [*own])]:
        spent = [
            sum(own[n] for n in names if known[n].kind == kind) / each for kind in KINDS
        ]
        cells = (phase, *(f"{x:.0f}" for x in (sum(spent), *spent)), len(names))
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    rate = 2 * 1024**3 / (1e9 * matmul_cpu_seconds())  # operations per nanosecond
    products = sum(times[n] * known[n].flops for n in own) / rate / each
    values: collections.Counter = collections.Counter()
    for n in own:
        for function, count in known[n].functions.items():
            values[function] += times[n] * count
    functions = sum(n * nanoseconds(FUNCTIONS[f]) for f, n in values.items()) / each
    limit = products + functions
    print("\n| arithmetic of | µs | share of the step |\n| --- | --: | --: |")
    for what, time_of in (
        ("products", products),
        ("functions", functions),
        ("both", limit),
    ):
        print(f"| {what} | {time_of:.0f} | {time_of / whole:.2f} |", flush=True)
    alone = cpu_ms(compiled, arguments, steps) / members
    print(f"\n{name}, without a profile: {alone:.2f} ms of CPU time", flush=True)


def main() -> None:
    """Prints the tables of each setting and number of members."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", nargs="+", default=["induction"], choices=STEPS)
    parser.add_argument("--members", type=int, nargs="+", default=[1, 8])
    parser.add_argument(
        "--steps", type=int, help="by default a hundredth of train_step's"
    )
    options = parser.parse_args()
    for name in options.settings:
        for members in options.members:
            tables(name, members, options.steps or max(5, STEPS[name] // 100))


if __name__ == "__main__":
    main()
