"""A model and a task that the package does not have: linear regression.

As a script, it trains one member into each folder that it is given; the tests kill it.
"""

import contextlib
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

import opto
from icl.runs import open_run
from icl.training import fit, Member, Training
from icl.training.optimizers import Adam, Constant
from icl.training.schedules import Every


TRACES: list[str] = []
"""Grows by one each time JAX traces `Regression.sample`."""


class Linear(eqx.Module):
    """`weight . x + bias`, with one more field that is no weight."""

    weight: Float[Array, " dim"]
    bias: Float[Array, ""]
    version: Int[Array, ""]

    def __call__(self, x, *, tap=opto.identity):
        terms = tap("terms", self.weight * x, "dim")
        return tap("prediction", jnp.sum(terms) + self.bias, "")


class Regression(eqx.Module):
    """x ~ N(0, I), y = truth . x + noise N(0, 1); the loss is the squared error."""

    truth: Float[Array, " dim"]
    noise: float = eqx.field(static=True)

    def sample(self, *, key, seen):
        TRACES.append("sample")
        x_key, noise_key = jax.random.split(key)
        x = jax.random.normal(x_key, self.truth.shape)
        return x, self.truth @ x + self.noise * jax.random.normal(noise_key)

    def forward(self, model, example, *, tap=opto.identity):
        return model(example[0], tap=tap)

    def metrics(self, outputs, example):
        error = outputs - example[1]
        return {"loss": error**2, "size": jnp.abs(error)}


def linear(dim=3, seed=0):
    weight = 0.5 * jax.random.normal(jax.random.key(seed), (dim,))
    return Linear(weight, jnp.asarray(0.25), jnp.asarray(7))


def regression(dim=3, noise=0.1):
    return Regression(jnp.arange(1.0, dim + 1) / dim, noise)


def examples(task, count, seed=1):
    return jax.vmap(lambda key: task.sample(key=key, seen=0))(
        jax.random.split(jax.random.key(seed), count)
    )


def member(optimizer=None, *, dim=3, **fields):
    fields = {"task": regression(dim), "model": linear(dim), **fields}
    return Member(optimizer=optimizer or Adam(Constant(0.01)), **fields)


def main(folders, cache=None):
    """Trains one member into each folder, or finishes it.

    **Arguments:**

    - `cache`: A folder of compiled programs to reuse.
    """
    jax.config.update("jax_num_cpu_devices", 2)
    if cache is not None:
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    task = regression()
    members = [
        member(task=task, train_seed=seed, evaluations={"held": examples(task, 20)})
        for seed in range(len(folders))
    ]
    # Little work and many writes: almost every batch has an evaluation or a checkpoint.
    training = Training(3840, 8, evaluate_at=Every(32), checkpoint_at=Every(48))
    with contextlib.ExitStack() as stack:
        opened = [
            open_run(folder, {"seed": seed}, resume=True)
            for seed, folder in enumerate(folders)
        ]
        runs = [stack.enter_context(run) for run in opened]
        fit(members, training, runs=runs, resume_interval=0.0)


if __name__ == "__main__":
    main(sys.argv[1:])
