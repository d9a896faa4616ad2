"""The gain of each choice behind the training step; `python benchmarks/choices.py`.

Every variant is compiled. Then all are timed in turns within one process: other
processes make timings noisy, and variants that take turns share the noise. The setting
is that of `train_step.py` unless the row says otherwise. A ratio above 1 means that our
choice is faster.
"""

import contextlib
import dataclasses
import functools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import equinox as eqx
import jax
import jax.numpy as jnp

from icl import compile as _compile
from icl.experiments import Experiment
from icl.models import LinearAttention, SoftmaxAttention, TransformerConfig
from icl.models.attention import _products, linear
from icl.presets.induction import induction
from icl.tasks.exemplar_label import Context, ExemplarLabelTask
from icl.training import _steps, Member, Training, with_arrays


STEPS, ROUNDS = 100, 7


def program(experiment: Experiment) -> Callable[[], Any]:
    """A compiled function that does `STEPS` training steps of an experiment."""
    member: Member = experiment.build()
    state = _steps.initial_state(member, 32)
    prepared = with_arrays(member)
    steps = _steps.stepper(Training(batch_size=32))
    arrays, rest = eqx.partition((prepared, state), eqx.is_array)

    def run(arrays, n):
        member, state = eqx.combine(arrays, rest)
        return steps(member, state, n)

    compiled = _compile.jit(run)
    count = jnp.asarray(STEPS)
    jax.block_until_ready(compiled(arrays, count))  # Compiles under the patches.
    return lambda: jax.block_until_ready(compiled(arrays, count))


@contextlib.contextmanager
def no_option() -> Iterator[None]:
    with mock.patch.object(_compile, "_options", return_value=None):
        yield


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
    rows = {
        "compiler option, against none": (2, contextlib.nullcontext, no_option),
        "only the query's row, against all rows": (
            2,
            contextlib.nullcontext,
            all_rows,
        ),
    }
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
        model = TransformerConfig(attention=kind)
        with chosen():
            a = program(with_context(length, model))
        with other():
            b = program(with_context(length, model))
        times = {"a": [], "b": []}
        for _ in range(ROUNDS):
            for key, run in (("a", a), ("b", b)):
                start = time.perf_counter()
                run()
                times[key].append((time.perf_counter() - start) / STEPS)
        mine, theirs = (statistics.median(times[key]) for key in "ab")
        print(
            f"| {name} | {1 / mine:.0f} | {1 / theirs:.0f} | {theirs / mine:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
