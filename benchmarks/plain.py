"""Our training step beside a plain one; `python benchmarks/plain.py`.

The plain step is what one writes without a framework: a dictionary of weights, a
function of one sequence, `vmap`, `value_and_grad`, Optax's Adam and a loop, compiled
with the same options. It has no taps, no edits, no members and no run. Both start from
the same weights, draw the same sequences and do the same arithmetic: their losses must
agree before anything is timed. Then both are timed in turns on one device.

The second table has the memory of our step with and without microbatches, as XLA
reports it.
"""

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from icl.compile import jit
from icl.data import LowRankClasses
from icl.experiments import Experiment
from icl.models import ExemplarLabelModel, Learned, TransformerConfig
from icl.presets.induction import induction
from icl.tasks.exemplar_label import Context, ExemplarLabel, Split
from icl.training import _steps, Member, Training
from icl.training._members import Members
from icl.training.optimizers import Adam, Constant


RATE = 1e-4


def sizes() -> Iterator[tuple[str, Experiment, int]]:
    """Name, experiment and steps to time."""
    yield "the main run: 2 layers of 64, 5 tokens", induction(), 200
    yield "2 layers of 128 with MLP, 33 tokens", _experiment(2, 128, 16, 32), 20
    yield "3 layers of 64 with MLP, 81 tokens", _experiment(3, 64, 40, 64), 10
    yield "12 layers of 256 with MLP, 81 tokens", _experiment(12, 256, 40, 64), 1


def _experiment(layers: int, width: int, context: int, batch: int) -> Experiment:
    return Experiment(
        data=LowRankClasses(200, 20),
        task=ExemplarLabel(
            class_split=Split(train=200),
            exemplar_split=Split(train=20),
            context=Context(length=context, burstiness=context // 4),
        ),
        model=TransformerConfig(
            num_layers=layers,
            d_model=width,
            mlp_ratio=4.0,
            positions=Learned(128),
        ),
        training=Training(num_sequences=10**6, batch_size=batch),
    )


def ours(member: Member, training: Training) -> tuple[Callable, Any]:
    """Our compiled function of the number of steps, and its memory."""
    together = Members([member])
    state = together.stack([_steps.initial_state(member, training.batch_size)])
    count = jnp.asarray(1, jnp.int32)
    program, memory = together.compiled(_steps.stepper(training), state, count)

    def run(count: int) -> jax.Array:
        return program(state, jnp.asarray(count, jnp.int32))[1]["loss"][:count]

    return run, memory


def plain(member: Member, training: Training) -> Callable[[int], jax.Array]:
    """The plain step as a compiled function of the number of steps."""
    weights, logits = _plain_model(member.model)
    optimizer = optax.adam(RATE)
    task, batch = member.task, training.batch_size

    def loss(weights, examples, labels):
        found = jax.vmap(lambda x, y: logits(weights, x, y))(examples, labels)
        right = jnp.take_along_axis(jax.nn.log_softmax(found), labels[:, -1:], -1)
        return -right.mean()

    @jit
    def steps(weights, state, count):
        def body(i, carry):
            weights, state, losses = carry
            key = jax.random.fold_in(jax.random.key(member.train_seed), i)
            keys = jax.random.split(key, batch)
            drawn = jax.vmap(lambda key: task.sample(key=key, seen=batch * i))(keys)
            value, grad = jax.value_and_grad(loss)(weights, *task.inputs(drawn))
            updates, state = optimizer.update(grad, state, weights)
            weights = optax.apply_updates(weights, updates)
            return weights, state, losses.at[i].set(value)

        losses = jnp.zeros(_steps.BUFFER)
        return jax.lax.fori_loop(0, count, body, (weights, state, losses))[2]

    state = optimizer.init(weights)
    return lambda count: steps(weights, state, jnp.asarray(count, jnp.int32))[:count]


def _plain_model(model: ExemplarLabelModel) -> tuple[dict, Callable]:
    """The model's weights, and a function of them that gives the query's logits."""
    names = [f"{kind}{i}" for i in range(len(model.blocks)) for kind in ("attn", "mlp")]
    weights: dict[str, Any] = {
        "exemplar": _pair(model.embedding.exemplar),
        "label": model.embedding.label.weight,
        "final": _pair(model.final_norm),
        "unembed": _pair(model.unembed),
    }
    table = getattr(model.embedding.positions, "table", None)
    if table is not None:
        weights["positions"] = table
    for name, block in zip(names[::2], model.blocks, strict=True):
        parts = (block.attn.query, block.attn.key, block.attn.value, block.attn.output)
        weights[name] = (_pair(block.attn_norm), *(part.weight for part in parts))
    with_mlp = model.blocks[0].mlp is not None
    for name, block in zip(names[1::2], model.blocks, strict=True):
        if block.mlp is not None:
            expand, contract = block.mlp.expand, block.mlp.contract
            layers = (expand.weight, expand.bias, contract.weight, contract.bias)
            weights[name] = (_pair(block.mlp_norm), *layers)
    heads, last = model.blocks[0].attn.num_heads, names[-2]

    def norm(weights, x):
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred**2).mean(-1, keepdims=True)
        return weights[0] * centred / jnp.sqrt(variance + 1e-5) + weights[1]

    def split(x):
        return x.reshape(len(x), heads, -1)

    def rotate(x, start):
        angle = np.arange(start, start + len(x))[:, None] * 1e4 ** (
            -np.arange(0, x.shape[-1], 2) / x.shape[-1]
        )
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        a, b = x[..., ::2], x[..., 1::2]
        turned = jnp.stack([a * cos - b * sin, a * sin + b * cos], -1)
        return turned.reshape(x.shape).astype(x.dtype)

    def attention(weights, x, start):
        scale, query, key, value, output = weights
        read = norm(scale, x)
        q, k = split(read[start:] @ query.T), split(read @ key.T)
        if table is None:
            q, k = rotate(q, start), rotate(k, 0)
        scores = jnp.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
        seen = np.tri(len(q), len(k), start, dtype=bool)
        pattern = jax.nn.softmax(jnp.where(seen, scores, -1e20))
        z = jnp.einsum("hqk,khd->qhd", pattern, split(read @ value.T))
        return x[start:] + z.reshape(len(q), -1) @ output.T

    def mlp(weights, x):
        scale, expand, expand_bias, contract, contract_bias = weights
        hidden = jax.nn.gelu(norm(scale, x) @ expand.T + expand_bias)
        return x + hidden @ contract.T + contract_bias

    def logits(weights, examples, labels):
        context = len(examples) - 1
        tokens = examples @ weights["exemplar"][0].T + weights["exemplar"][1]
        pairs = jnp.stack([tokens[:-1], weights["label"][labels[:-1]]], 1)
        x = jnp.concatenate([pairs.reshape(2 * context, -1), tokens[-1:]])
        if table is not None:
            x = x + weights["positions"][: len(x)]
        for attn_name, mlp_name in zip(names[::2], names[1::2], strict=True):
            # As ours does, the last layer computes only the query's row.
            start = 2 * context if attn_name == last else 0
            x = attention(weights[attn_name], x, start)
            if with_mlp:
                x = mlp(weights[mlp_name], x)
        x = norm(weights["final"], x[-1])
        return weights["unembed"][0] @ x + weights["unembed"][1]

    return weights, logits


def _pair(layer: Any) -> tuple[jax.Array, jax.Array]:
    return layer.weight, layer.bias


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    jax.config.update("jax_num_cpu_devices", 1)
    print(f"{jax.devices()[0].device_kind}, one device, jax {jax.__version__}")
    print("| model | steps/s | plain | ours / plain |\n| --- | --: | --: | --: |")
    for name, experiment, count in sizes():
        member = dataclasses.replace(experiment.build(), optimizer=Adam(Constant(RATE)))
        programs = (
            ours(member, experiment.training)[0],
            plain(member, experiment.training),
        )
        np.testing.assert_allclose(programs[0](3), programs[1](3), rtol=2e-4)
        times: tuple[list[float], list[float]] = [], []
        for _ in range(rounds):
            for program, seconds in zip(programs, times, strict=True):
                start = time.perf_counter()
                program(count).block_until_ready()
                seconds.append(time.perf_counter() - start)
        mine, theirs = (count / statistics.median(seconds) for seconds in times)
        ratio = statistics.median(b / a for a, b in zip(*times, strict=True))
        print(f"| {name} | {mine:.4g} | {theirs:.4g} | {ratio:.2f} |", flush=True)

    print("\n| 12 layers of 256, batch 64, 81 tokens | temporary MiB |\n| --- | --: |")
    *_, (_, experiment, _) = sizes()
    member = experiment.build()
    for micro in (None, 32, 16, 8):
        training = dataclasses.replace(experiment.training, microbatch_size=micro)
        memory = ours(member, training)[1]
        label = "whole batch" if micro is None else f"microbatches of {micro}"
        print(f"| {label} | {memory.temp_size_in_bytes / 2**20:.0f} |", flush=True)


if __name__ == "__main__":
    main()
