"""The gain of each choice behind training; `python benchmarks/choices.py`.

Every variant is compiled. Then all are timed in turns within one process: other
processes make timings noisy, and variants that take turns share the noise. The setting
is that of `train_step.py` on a device for each core, unless the row says otherwise. A
ratio above 1 means that our choice is faster.
"""

import argparse
import contextlib
import dataclasses
import functools
import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import optax

from icl import compile as _compile, random
from icl.devices import cores
from icl.experiments import Experiment
from icl.models import _layers, LinearAttention, stack, TransformerConfig
from icl.models.attention import _kernels, _products
from icl.presets.coopetition import coopetition, coopetition_12_layers
from icl.presets.functions import (
    function_curriculum,
    function_linear,
    function_linear_three_layers,
)
from icl.presets.gradient_descent import lsa, regression_transformer, softmax_copy
from icl.presets.induction import induction
from icl.presets.likelihood_ratio import shifted_mean, shifted_mean_published
from icl.tasks.exemplar_label import Context, ExemplarLabelTask
from icl.tasks.regression import _task as _regression
from icl.training import (
    _members,
    _sharing,
    _steps,
    devices_of,
    Training,
)
from icl.training._members import Members


STEPS, ROUNDS = 100, 7


def training_steps(choice: "Choice") -> Callable[[], Any]:
    """A compiled function that does some training steps of each of some members."""
    number = jnp.asarray(choice.steps, jnp.int32)
    return program(choice, _steps.stepper, number)


def evaluation(choice: "Choice") -> Callable[[], Any]:
    """A compiled function that evaluates each of some members once."""
    return program(choice, lambda training, devices: _steps.evaluator(devices))


def program(
    choice: "Choice", made: Callable[[Training, int], Callable], *args: Any
) -> Callable[[], Any]:
    base, training = choice.experiment.build(), choice.experiment.training
    seeds = range(choice.members)
    members = [dataclasses.replace(base, train_seed=seed) for seed in seeds]
    devices = devices_of(members, training)
    together = Members(members, devices)
    fresh = [_steps.initial_state(m, training.batch_size) for m in members]
    state = together.stack(fresh)
    compiled = together.map(made(training, devices))
    jax.block_until_ready(compiled(state, *args))  # Compiles under the patches.
    return lambda: jax.block_until_ready(compiled(state, *args))


@contextlib.contextmanager
def no_option() -> Iterator[None]:
    with mock.patch.object(_compile, "_options", return_value=None):
        yield


def side_by_side():
    return mock.patch.object(_members, "_each", lambda fn, x: jax.vmap(fn)(x))


def shared(least_uses: float):
    return mock.patch.object(_sharing, "_LEAST_USES", least_uses)


def norm_by_squares():
    return mock.patch.object(_steps, "_norm", optax.tree.norm)


def pieces(size: int):
    return mock.patch.object(_steps, "_EVALUATION_CHUNK_ON_CPU", size)


def attention(pairs: int):
    return mock.patch.object(_products, "_ELEMENTWISE_PAIRS", pairs)


def at_once(factor: float):
    return mock.patch.object(_kernels, "_AT_ONCE", factor)


def token_by_token():
    return mock.patch.object(_layers, "_WHOLE", {})


def computed_by_each_reader():
    return mock.patch.object(_layers, "computed_once", lambda x: x)


def stream_by_each_reader():
    return mock.patch.object(stack, "computed_once", lambda x: x)


@contextlib.contextmanager
def numbers_of_jax() -> Iterator[None]:
    with (
        mock.patch.object(_steps, "split", jax.random.split),
        mock.patch.object(_regression, "split", jax.random.split),
        mock.patch.object(random, "computed_once", lambda x: x),
    ):
        yield


def sums_over_tokens():
    return mock.patch.object(_layers, "_rows", lambda vector, count: vector)


def all_rows():
    def forward(self, model, example, *, tap):
        return model(*self.inputs(example), tap=tap)[-1]

    return mock.patch.object(ExemplarLabelTask, "forward", forward)


def with_context(length: int, model: TransformerConfig) -> Experiment:
    base = induction()
    burst = Context(length=length, burstiness=length // 2, distractor=True)
    task = dataclasses.replace(base.task, context=burst)
    return dataclasses.replace(base, task=task, model=model, evaluations={})


@dataclasses.dataclass(frozen=True)
class Choice:
    """What to compare: a setting under our choice and under the other."""

    name: str
    other: Callable[[], Any]
    chosen: Callable[[], Any] = contextlib.nullcontext
    experiment: Experiment = induction()
    members: int = 1
    steps: int = STEPS
    timed: Callable[["Choice"], Callable[[], Any]] = training_steps


def choices() -> Iterator[Choice]:
    yield Choice("compiler option, against none", no_option)
    yield Choice("only the query's row, against all rows", all_rows)
    yield Choice("gradient's norm by products, against squares", norm_by_squares)
    layers = "layers on whole sequences, against token by token"
    yield Choice(layers, token_by_token)
    for layer_count, width, steps in ((2, 128, 10), (12, 256, 1)):
        model = TransformerConfig(num_layers=layer_count, d_model=width, mlp_ratio=4.0)
        name = f"{layers}: {layer_count} layers of {width}, 33 tokens"
        setting = with_context(16, model)
        yield Choice(name, token_by_token, experiment=setting, steps=steps)
    for other, what in (
        (computed_by_each_reader, "products computed once, against by each reader"),
        (sums_over_tokens, "gradients of biases by products, against sums"),
    ):
        yield Choice(what, other)
        for preset, steps in WITH_BIASES.items():
            name = f"{what}: {preset.__name__}"
            yield Choice(name, other, experiment=preset(), steps=steps)
    for preset in (lsa, softmax_copy):
        base = preset()
        training = dataclasses.replace(base.training, batch_size=2048)
        large = dataclasses.replace(base, training=training, evaluations={})
        for other, what in (
            (numbers_of_jax, "keys without loops, the error function apart, against"),
            (stream_by_each_reader, "a stack's stream computed once, against"),
        ):
            name = f"{what} not: {preset.__name__}"
            yield Choice(name, other, experiment=large, steps=20)
    for count in (8, 32):
        name = f"{count} members one after the other, against side by side"
        yield Choice(name, side_by_side, members=count)
    one, several = functools.partial(shared, math.inf), functools.partial(shared, 0)
    for preset, steps in SHARED.items():
        name = f"a batch of {preset.__name__} on each core, against one device"
        yield Choice(name, one, several, preset(), steps=steps)
    for length in (2, 4, 8, 16):
        yield Choice(
            f"element-wise attention, {2 * length + 1} tokens, against einsum",
            functools.partial(attention, 0),
            functools.partial(attention, 10**9),
            with_context(length, TransformerConfig()),
        )
    for length in (8, 16, 32, 64):
        yield Choice(
            f"linear attention by a running sum, {2 * length + 1} tokens, at once",
            functools.partial(at_once, math.inf),
            functools.partial(at_once, 0),
            with_context(length, TransformerConfig(attention=LinearAttention())),
        )

    for preset in (
        induction,
        function_curriculum,
        shifted_mean,
        regression_transformer,
    ):
        name = f"evaluations of {preset.__name__} in pieces of 256, against 1024"
        setting = functools.partial(pieces, 1024)
        yield Choice(name, setting, experiment=preset(), steps=1, timed=evaluation)


# How many steps are timed, by preset.
WITH_BIASES = {
    function_linear: 20,
    function_linear_three_layers: 10,
    shifted_mean_published: 10,
}
SHARED = {induction: 100, lsa: 50, coopetition: 20, coopetition_12_layers: 4}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows with this text")
    only = parser.parse_args().only
    jax.config.update("jax_num_cpu_devices", cores())
    print(f"{jax.devices()[0].device_kind}, {cores()} cores, jax {jax.__version__}")
    print("| choice | steps/s | without | ratio |\n| --- | --: | --: | --: |")
    for choice in choices():
        if only not in choice.name:
            continue
        with choice.chosen():
            a = choice.timed(choice)
        with choice.other():
            b = choice.timed(choice)
        times = {"a": [], "b": []}
        for _ in range(ROUNDS):
            for key, run in (("a", a), ("b", b)):
                start = time.perf_counter()
                run()
                times[key].append(time.perf_counter() - start)
        mine, theirs = (statistics.median(times[key]) for key in "ab")
        done = choice.steps * choice.members
        print(
            f"| {choice.name} | {done / mine:.1f} | {done / theirs:.1f} "
            f"| {theirs / mine:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
