"""Learnt edits and roll-outs beside loops; `python benchmarks/learnt.py`.

The loops are what one writes around `opto.run`: a jitted update called from Python, for
one place after another; and whole runs on inputs that grow. All start without compiled
programs, as in a fresh process, and then run once more.
"""

import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import opto
from opto.dictionary import Dictionary, TopK


SITE = "blocks.*.resid_post"
STEPS, RANK, TOKENS = 200, 2, 32


def encoder() -> tuple[Any, jax.Array, jax.Array]:
    """A model of Equinox's own layers, and two batches of ids."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    foreign = importlib.import_module("foreign")
    model, _ = foreign.twins(foreign.models()["encoder"][0])
    ids = jax.random.randint(jax.random.key(1), (2, 256, 8), 0, 6)
    return model, ids[0], ids[1]


def loss(out: jax.Array, expected: jax.Array) -> jax.Array:
    """The mean cross-entropy of the last answer."""
    log = jax.nn.log_softmax(out[:, -1])
    return -jnp.take_along_axis(log, expected[:, None], 1).mean()


def correct(out: jax.Array, expected: jax.Array) -> jax.Array:
    """Whether each last answer is the expected one."""
    return out[:, -1].argmax(-1) == expected


def align(model: Any, ids: jax.Array, other: jax.Array) -> tuple[Callable, Callable]:
    """Subspaces at each layer and position: ours, and a loop over places and steps."""
    expected = opto.run(model, other)[0][:, -1].argmax(-1)

    def ours():
        at = opto.At(SITE).each("layer", "pos")
        return opto.align.find_subspace(
            model,
            [ids],
            [other],
            expected,
            at=at,
            rank=RANK,
            loss=loss,
            correct=correct,
            steps=STEPS,
            held_out=0.25,
        )

    def loop():
        optimizer = optax.adam(0.01)
        _, record = opto.run(model, other[:192], record=SITE)
        width = record["blocks.0.resid_post"].shape[-1]
        found = []
        for layer in range(len(record)):
            for pos in range(ids.shape[1]):
                patch = opto.Patch(
                    SITE, record, basis=np.ones((RANK, width)), layer=layer, pos=pos
                )

                @eqx.filter_jit
                def step(basis, moments, patch=patch):
                    def value(basis):
                        edit = eqx.tree_at(lambda e: e.basis.vectors, patch, basis)
                        out, _ = opto.run(model, ids[:192], edits=[edit])
                        return loss(out, expected[:192])

                    slopes = jax.grad(value)(basis)
                    updates, moments = optimizer.update(slopes, moments)
                    return optax.apply_updates(basis, updates), moments

                basis = jax.random.normal(jax.random.key(0), (RANK, width))
                moments = optimizer.init(basis)
                for _ in range(STEPS):
                    basis, moments = step(basis, moments)
                found.append(basis)
        return found

    return ours, loop


def dictionary() -> tuple[Callable, Callable]:
    """A sparse autoencoder: ours, and a loop over steps."""
    vectors = jax.random.normal(jax.random.key(0), (16_384, 64))
    start = Dictionary(64, 256, TopK(8), key=jax.random.key(1))
    optimizer = optax.adam(1e-3)
    steps, size = 1000, 1024

    def ours():
        return opto.dictionary.train(
            start, vectors, steps=steps, batch_size=size, optimizer=optimizer
        )

    def loop():
        @eqx.filter_jit
        def step(sae, moments, batch):
            def value(sae):
                return jnp.mean(jnp.sum((sae(batch) - batch) ** 2, -1))

            slopes = eqx.filter_grad(value)(sae)
            updates, moments = optimizer.update(slopes, moments)
            return eqx.apply_updates(sae, updates), moments

        sae, rng = start, np.random.default_rng(0)
        moments = optimizer.init(eqx.filter(sae, eqx.is_inexact_array))
        data = np.asarray(vectors)
        for _ in range(steps):
            sae, moments = step(sae, moments, data[rng.integers(0, len(data), size)])
        return sae

    return ours, loop


def roll_out(model: Any, ids: jax.Array) -> tuple[Callable, Callable]:
    """Tokens that a model writes under an edit: ours, and a loop of whole runs."""
    edits = [opto.Zero("blocks.*.attn.z", pos=-1, head=0)]

    def loop():
        here = ids
        for _ in range(TOKENS):
            out, _ = opto.run(model, here, edits=edits)
            here = jnp.concatenate([here, out[:, -1:].argmax(-1).astype(ids.dtype)], 1)
        return here

    return lambda: opto.roll_out(model, ids, steps=TOKENS, edits=edits), loop


def main() -> None:
    """Prints a table: seconds of a first and of a second call."""
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}\n")
    model, ids, other = encoder()
    rows = {
        f"`align.find_subspace`, {STEPS} steps": align(model, ids, other),
        "`dictionary.train`, 1000 steps": dictionary(),
        f"`roll_out`, {TOKENS} tokens": roll_out(model, ids[:32, :4]),
    }
    print("| s | ours, first | loop, first | ours, again | loop, again |")
    print("| --- | --: | --: | --: | --: |")
    for name, calls in rows.items():
        times = []
        for _ in range(2):
            for call in calls:
                start = time.perf_counter()
                jax.block_until_ready(eqx.filter(call(), eqx.is_array))
                times.append(time.perf_counter() - start)
        print(f"| {name} |" + "".join(f" {x:.2f} |" for x in times), flush=True)


if __name__ == "__main__":
    main()
