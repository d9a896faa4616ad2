"""Where the time of a training step goes; `python benchmarks/operations.py`.

The program that `fit` runs is profiled on one device, for one member and for eight.
Each operation's own time, without the operations inside it, is added up by phase. The
phases are in the compiled program: `sample` and `optimizer` are named scopes of the
training step, and JAX marks what differentiation adds as a transpose.

Matrix products are listed apart, beside the time that their arithmetic takes at the
rate of a 1024^3 float32 product in the same process. A profile itself costs time, so
compare its rows with each other, and steps per second with `train_step.py`.
"""

import argparse
import collections
import dataclasses
import math
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from train_step import matmul_cpu_seconds

from icl.presets.induction import induction
from icl.training import _steps
from icl.training._members import Members


PHASES = ("sample", "forward", "backward", "optimizer", "loop and copies")
_NAME = r"%?([\w.-]+)"
_INSTRUCTION = re.compile(rf"^\s*(?:ROOT )?{_NAME} = \w+\[([\d,]*)\]")
_COMPUTATION = re.compile(rf"^(?:ENTRY )?{_NAME} \(.*\{{$")
_DOT = re.compile(rf" dot\({_NAME}, .*lhs_contracting_dims=\{{([\d,]*)\}}")


@dataclasses.dataclass
class Operation:
    """What the compiled program says about one of its operations."""

    phase: str
    flops: int
    """Of the matrix products in it; 0 if it has none."""


def compiled_steps(members: int) -> tuple[Any, tuple[Any, ...]]:
    """The compiled training program of some members, and its arguments."""
    experiment = induction()
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
    shapes = {
        m[1]: m[2] for line in text.splitlines() if (m := _INSTRUCTION.match(line))
    }
    flops: collections.Counter = collections.Counter()
    inside = ""
    for line in text.splitlines():
        if found := _COMPUTATION.match(line):
            inside = found[1]
        elif (dot := _DOT.search(line)) and (given := _INSTRUCTION.match(line)):
            left = _sizes(shapes[dot[1]])
            summed = math.prod(left[axis] for axis in _sizes(dot[2]))
            flops[inside] += 2 * math.prod(_sizes(given[2])) * summed
    return {
        found[1]: Operation(_phase(line), _called(line, flops))
        for line in text.splitlines()
        if (found := re.match(rf"^\s*(?:ROOT )?{_NAME} = ", line))
    }


def _sizes(text: str) -> list[int]:
    return [int(size) for size in text.split(",") if size]


def _called(line: str, flops: collections.Counter) -> int:
    found = re.search(rf"calls={_NAME}", line)
    return flops[found[1]] if found else 0


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


def profile(compiled: Any, arguments: tuple[Any, ...], steps: int):
    """Each operation's own nanoseconds in so many steps."""
    count = jnp.int32(steps)
    jax.block_until_ready(compiled(*arguments, count))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(compiled(*arguments, count))
        (file,) = Path(folder).rglob("*.xplane.pb")
        data = jax.profiler.ProfileData.from_file(str(file))
        lines = [line for plane in data.planes for line in plane.lines]
        own: collections.Counter = collections.Counter()
        for line in lines:
            own.update(_own_times(e for e in line.events if "hlo_op" in dict(e.stats)))
    return own


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


def table(members: int, steps: int) -> None:
    """Prints the phases of a step of each member."""
    compiled, arguments = compiled_steps(members)
    known = operations(compiled.as_text())
    own, each = profile(compiled, arguments, steps), steps * members
    rate = 2 * 1024**3 / (1e9 * matmul_cpu_seconds())  # operations per nanosecond
    print(f"\nmembers: {members}; microseconds of one step of one member\n")
    print("| phase | all | products | their arithmetic | ratio | operations |")
    print("| --- |" + 5 * " --: |")
    rows = [(phase, [n for n in own if known[n].phase == phase]) for phase in PHASES]
    for phase, names in [*rows, ("step", [*own])]:
        products = [name for name in names if known[name].flops]
        spent = sum(own[name] for name in products) / each / 1e3
        least = sum(known[name].flops for name in products) / rate / 1e3
        whole = sum(own[name] for name in names) / each / 1e3
        ratio = f"{spent / least:.1f}" if least else "–"
        cells = (
            phase,
            f"{whole:.0f}",
            f"{spent:.0f}",
            f"{least:.0f}",
            ratio,
            len(names),
        )
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def main() -> None:
    """Prints a table for each number of members."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    for members in options.members:
        table(members, options.steps)


if __name__ == "__main__":
    main()
