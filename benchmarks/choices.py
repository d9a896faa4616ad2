"""The gain of each choice behind the training step; `python benchmarks/choices.py`.

Every variant is compiled. Then all are timed in turns within one process: other
processes make timings noisy, and variants that take turns share the noise. The setting
is that of `train_step.py` unless the row says otherwise. A ratio above 1 means that our
choice is faster.
"""

import contextlib
import dataclasses
import functools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import optax

from icl import compile as _compile
from icl.experiments import Experiment
from icl.models import LinearAttention, SoftmaxAttention, TransformerConfig
from icl.models.attention import _products, linear
from icl.presets.induction import induction
from icl.tasks.exemplar_label import Context, ExemplarLabelTask
from icl.training import _members, _steps, Member, Training, with_arrays
from icl.training._members import Members


STEPS, ROUNDS = 100, 7


def program(experiment: Experiment, count: int = 1) -> Callable[[], Any]:
    """A compiled function that does `STEPS` training steps of each of some members."""
    base: Member = experiment.build()
    members = [dataclasses.replace(base, train_seed=seed) for seed in range(count)]
    together = Members([with_arrays(member) for member in members])
    state = together.stack([_steps.initial_state(member, 32) for member in members])
    compiled = together.map(_steps.stepper(Training(batch_size=32)))
    number = jnp.asarray(STEPS, jnp.int32)
    jax.block_until_ready(compiled(state, number))  # Compiles under the patches.
    return lambda: jax.block_until_ready(compiled(state, number))


@contextlib.contextmanager
def no_option() -> Iterator[None]:
    with mock.patch.object(_compile, "_options", return_value=None):
        yield


def side_by_side():
    return mock.patch.object(_members, "_each", lambda fn, x: jax.vmap(fn)(x))


def norm_by_squares():
    return mock.patch.object(_steps, "_norm", optax.tree.norm)


def attention(pairs: int):
    return mock.patch.object(_products, "_ELEMENTWISE_PAIRS", pairs)


def at_once(pairs: int):
    return mock.patch.object(linear, "_AT_ONCE_PAIRS", pairs)


def all_rows():
    def forward(self, model, example, *, tap):
        return model(*self.inputs(example), tap=tap)[-1]

    return mock.patch.object(ExemplarLabelTask, "forward", forward)


def with_context(length: int, model: TransformerConfig) -> Experiment:
    base = induction()
    burst = Context(length=length, burstiness=length // 2, distractor=True)
    task = dataclasses.replace(base.task, context=burst)
    return dataclasses.replace(base, task=task, model=model, evaluations={})


def main() -> None:
    jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))
    rows = {
        "compiler option, against none": (2, contextlib.nullcontext, no_option),
        "only the query's row, against all rows": (
            2,
            contextlib.nullcontext,
            all_rows,
        ),
    }
    rows["gradient's norm by products, against squares"] = (
        2,
        contextlib.nullcontext,
        norm_by_squares,
    )
    for count in (8, 32):
        name = f"{count} members one after the other, against side by side"
        rows[name] = (2, contextlib.nullcontext, side_by_side)
    for length in (2, 4, 8, 16):
        name = f"element-wise attention, {2 * length + 1} tokens, against einsum"
        rows[name] = (
            length,
            functools.partial(attention, 10**9),
            functools.partial(attention, 0),
        )
    for length in (8, 16, 32, 64):
        name = f"linear attention by a running sum, {2 * length + 1} tokens, at once"
        rows[name] = (
            length,
            functools.partial(at_once, 0),
            functools.partial(at_once, 10**9),
        )
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}")
    print("| choice | steps/s | without | ratio |\n| --- | --: | --: | --: |")
    for name, (length, chosen, other) in rows.items():
        by_sum = name.startswith("linear")
        kind = LinearAttention() if by_sum else SoftmaxAttention()
        count = int(name.split()[0]) if "members" in name else 1
        model = TransformerConfig(attention=kind)
        with chosen():
            a = program(with_context(length, model), count)
        with other():
            b = program(with_context(length, model), count)
        times = {"a": [], "b": []}
        for _ in range(ROUNDS):
            for key, run in (("a", a), ("b", b)):
                start = time.perf_counter()
                run()
                times[key].append((time.perf_counter() - start) / (STEPS * count))
        mine, theirs = (statistics.median(times[key]) for key in "ab")
        print(
            f"| {name} | {1 / mine:.0f} | {1 / theirs:.0f} | {theirs / mine:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
