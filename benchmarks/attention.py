"""Speed and memory of the kinds of attention; `python benchmarks/attention.py`.

- `step`: a training step with its data, for prompts of linear functions: 3 layers,
  d_model 64, 2 heads, batches of 64; 11 points of 5 components (22 tokens), and 41
  points of 20 (82 tokens). The last column is the public torch code (limits_of_icl) on
  two idle cores of another machine; `torch_step.py` times softmax on this one.
- `length`: one layer of attention (2 heads of width 32, causal) on one sequence,
  forward and gradient, in both forms: all weights at once, and the running sum if there
  is one. Beside the softmax: `jax.nn.dot_product_attention`.

Every variant is compiled; then all are timed in turns within one process. Times are the
smallest of some rounds, because other processes can only make them longer. CPU time
adds up all threads; on a busy machine it says more than the time that passed.
"""

import argparse
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from icl.devices import cores
from icl.experiments import Experiment
from icl.models import (
    Causal,
    ElementwiseRebasedAttention,
    FavorAttention,
    LinearAttention,
    RebasedAttention,
    RelaAttention,
    SoftmaxAttention,
    UnstabilisedFavorAttention,
    Window,
)
from icl.models.attention import _kernels
from icl.models.gpt2 import SIZES
from icl.tasks.functions import InContextFunction
from icl.training import _steps, devices_of, Training
from icl.training._members import Members
from opto import identity


MODELS: dict[str, dict[str, Any]] = {
    "softmax": {},
    "window of 15": {"mask": Window(15)},
    "multi-query": {"num_kv_heads": 1},
    "ReLA": {"attention": RelaAttention()},
    "FAVOR+": {"attention": FavorAttention(64)},
    "FAVOR, unstabilised": {"attention": UnstabilisedFavorAttention()},
    "ReBased": {"attention": RebasedAttention()},
    "ReBased, element-wise": {"attention": ElementwiseRebasedAttention()},
    "linear": {"attention": LinearAttention()},
}
TORCH = {
    "softmax": (32, 69),
    "multi-query": (27, 67),
    "ReLA": (29, 79),
    "FAVOR, unstabilised": (200, 1570),
    "ReBased, element-wise": (94, 813),
}
PROMPTS = {22: (5, 11), 82: (20, 41)}
LENGTHS = [64, 128, 256, 512, 1024, 2048, 4096]


@dataclasses.dataclass
class Timed:
    """A compiled function, and its smallest times in milliseconds so far."""

    run: Callable[[], Any]
    count: int = 1
    wall: float = float("inf")
    cpu: float = float("inf")

    def measure(self) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        jax.block_until_ready(self.run())
        scale = 1e3 / self.count
        self.cpu = min(self.cpu, scale * (time.process_time() - cpu))
        self.wall = min(self.wall, scale * (time.perf_counter() - wall))


def in_turns(rows: dict[Any, Timed], rounds: int) -> None:
    for _ in range(rounds):
        for row in rows.values():
            row.measure()


def training_step(name: str, tokens: int, steps: int) -> Timed:
    """Some training steps of a model, with their data."""
    dim, points = PROMPTS[tokens]
    model = dataclasses.replace(SIZES["tiny"], max_length=tokens, **MODELS[name])
    task = InContextFunction(dim=dim, points=points)
    training = Training(64 * steps, 64)
    member = Experiment(task, None, model, training=training, evaluations={}).build()
    devices = devices_of([member], training)
    together = Members([member], devices)
    state = together.stack([_steps.initial_state(member, 64)])
    compiled = together.map(_steps.stepper(training, devices))
    number = jnp.asarray(steps, jnp.int32)
    run = lambda: compiled(state, number)
    jax.block_until_ready(run())
    return Timed(run, steps)


def steps(arguments: argparse.Namespace) -> None:
    for k, tokens in enumerate(PROMPTS):
        if tokens > arguments.longest:
            continue
        rows = {}
        for name in arguments.kind or MODELS:
            rows[name] = training_step(name, tokens, arguments.steps)
        in_turns(rows, arguments.rounds)
        print(f"\n| step, {tokens} tokens | ms | CPU ms | over softmax | torch, ms |")
        print("|---|---|---|---|---|")
        base = rows.get("softmax") or next(iter(rows.values()))
        for name, row in rows.items():
            torch = TORCH[name][k] if name in TORCH else ""
            times = f"{row.wall:.1f} | {row.cpu:.1f} | {row.cpu / base.cpu:.2f}"
            print(f"| {name} | {times} | {torch} |", flush=True)


def forms(name: str) -> Iterator[tuple[str, Callable[..., jax.Array]]]:
    """The forms of a kind: functions of q, k and v."""
    config = MODELS[name].get("attention", SoftmaxAttention())
    mask = MODELS[name].get("mask", Causal())
    kind = config.build(2, 32, scale=None, key=jax.random.key(0))
    if not isinstance(kind, _kernels.AbstractKernelAttention):
        yield (
            "at once",
            lambda q, k, v: kind(q, k, v, mask.seen(len(q), 0), tap=identity),
        )
    else:
        pattern, scan = _kernels.AsPattern(kind, identity), _kernels.AsScan(kind)
        for label, form in (("at once", pattern), ("running sum", scan)):
            yield (
                label,
                lambda q, k, v, form=form: form(
                    kind.queries(q), kind.keys(k), v, mask.seen(len(q), 0)
                ),
            )
    if name == "softmax":
        yield (
            "jax.nn",
            lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
        )


def lengths(arguments: argparse.Namespace) -> None:
    rows, memory = {}, {}
    for length in (x for x in LENGTHS if x <= arguments.longest):
        qkv = jax.random.normal(jax.random.key(1), (3, length, 2, 32))
        for name in arguments.kind or MODELS:
            if "num_kv_heads" in MODELS[name]:
                continue  # Sharing keys and values changes only the projections.
            for label, form in forms(name):
                loss = lambda qkv, form=form: jnp.sum(form(*qkv) ** 2)
                compiled = jax.jit(jax.grad(loss)).lower(qkv).compile()
                used: Any = compiled.memory_analysis()
                memory[name, label, length] = used.temp_size_in_bytes / 2**20
                jax.block_until_ready(compiled(qkv))
                row = Timed(lambda c=compiled, x=qkv: c(x))
                rows[name, label, length] = row
    in_turns(rows, arguments.rounds)
    columns = sorted({length for *_, length in rows})
    for title, value in (
        ("CPU ms", lambda key: f"{rows[key].cpu:.2f}"),
        ("temporary MiB", lambda key: f"{memory[key]:.1f}"),
    ):
        print(f"\n| {title} | form | {' | '.join(map(str, columns))} |")
        print(f"|{'---|' * (2 + len(columns))}")
        for name, label in dict.fromkeys(key[:2] for key in rows):
            cells = " | ".join(value((name, label, length)) for length in columns)
            print(f"| {name} | {label} | {cells} |")
    print()
    for name in dict.fromkeys(key[0] for key in rows):
        if (name, "running sum", columns[0]) in rows:
            faster = [
                length
                for length in columns
                if rows[name, "running sum", length].cpu
                < rows[name, "at once", length].cpu
            ]
            first = next(
                (x for x in faster if {y for y in columns if y >= x} <= {*faster}), None
            )
            where = f"from {first} tokens on" if first else "at none of these lengths"
            print(f"{name}: the running sum is faster {where}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Times kinds of attention.")
    parser.add_argument("part", nargs="*", default=["step", "length"])
    parser.add_argument("--kind", nargs="+", choices=MODELS, help="only these")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--longest", type=int, default=LENGTHS[-1])
    arguments = parser.parse_args()
    print(f"{jax.default_backend()}, {cores()} cores")
    for part in arguments.part:
        {"step": steps, "length": lengths}[part](arguments)


if __name__ == "__main__":
    main()
