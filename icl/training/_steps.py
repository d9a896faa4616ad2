"""The compiled part of training and evaluation, for one member."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, PyTree

import opto

from ..batches import size_of
from ._values import Training


# Evaluation sets are mapped in pieces of this many examples, to limit memory.
_EVALUATION_CHUNK = 1024


class State(eqx.Module):
    """What a step changes: the arrays of model and optimizer, and the step count."""

    model: PyTree
    optimizer: PyTree
    step: Int[Array, ""]


def initial_state(member: Any, batch_size: int) -> State:
    """The state before the first step."""
    arrays = eqx.filter(member.model, eqx.is_array)
    trained = eqx.filter(member.model, eqx.is_inexact_array)
    optimizer = member.optimizer.transform(batch_size).init(trained)
    return State(arrays, optimizer, jnp.zeros((), jnp.int32))


BUFFER = 4096
"""The largest number of steps in one dispatch: it collects their losses in rows."""


def stepper(training: Training) -> Callable[..., tuple[State, dict[str, Array]]]:
    """The function `(member, state, count)` that does `count` steps.

    It returns the new state and the steps' metrics. These are in the first rows of
    arrays of length `BUFFER`.
    """
    size = training.batch_size

    def steps(member: Any, state: State, count: Int[Array, ""]):
        def body(i, carry):
            state, rows = carry
            state, row = _step(member, state, size, training.microbatch_size or size)
            return state, {name: rows[name].at[i].set(row[name]) for name in rows}

        rows = {name: jnp.zeros(BUFFER) for name in ("loss", "grad_norm")}
        return jax.lax.fori_loop(0, count, body, (state, rows))

    return steps


def evaluate(member: Any, state: State) -> dict[str, dict[str, Array]]:
    """The metrics of each example of each evaluation set, under the member's edits."""
    model = eqx.combine(state.model, member.model)
    return {
        name: evaluate_batch(model, member.task, batch, member.edits)
        for name, batch in member.evaluations.items()
    }


def evaluate_batch(
    model: PyTree, task: Any, batch: PyTree, edits: tuple[opto.AbstractEdit, ...]
) -> dict[str, Array]:
    """The task's metrics for each example of a batch, `[example, ...]` each."""
    forward = opto.lift(task.forward)

    def one(example):
        return task.metrics(forward(model, example, edits=edits), example)

    size = min(size_of(batch), _EVALUATION_CHUNK)
    return jax.lax.map(one, batch, batch_size=size)


def _step(member: Any, state: State, batch_size: int, microbatch_size: int):
    # The batch is a function of the seed and the step: a resumed run sees the same one.
    key = jax.random.fold_in(jax.random.key(member.train_seed), state.step)
    seen = batch_size * state.step
    keys = jax.random.split(key, batch_size).reshape(-1, microbatch_size)
    model = eqx.combine(state.model, member.model)
    trained, rest = eqx.partition(model, eqx.is_inexact_array)
    forward = opto.lift(member.task.forward)

    def loss(trained, keys):
        model = eqx.combine(trained, rest)

        def one(key):
            example = member.task.sample(key=key, seen=seen)
            outputs = forward(model, example, edits=member.edits)
            return member.task.metrics(outputs, example)["loss"]

        return jnp.mean(jax.vmap(one)(keys))

    value, grad = _mean_over(jax.value_and_grad(loss), trained, keys)
    updates, optimizer = member.optimizer.transform(batch_size).update(
        grad, state.optimizer, trained
    )
    model = eqx.combine(optax.apply_updates(trained, updates), rest)
    arrays = eqx.filter(model, eqx.is_array)
    row = {"loss": value, "grad_norm": optax.tree.norm(grad)}
    return State(arrays, optimizer, state.step + 1), row


def _mean_over(value_and_grad, trained: PyTree, keys: Array) -> tuple[Array, PyTree]:
    """The mean of a loss and its gradient over microbatches, one after the other."""
    if len(keys) == 1:
        return value_and_grad(trained, keys[0])

    def add(total, keys):
        return jax.tree.map(jnp.add, total, value_and_grad(trained, keys)), None

    zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, trained))
    total, _ = jax.lax.scan(add, zero, keys)
    return jax.tree.map(lambda x: x / len(keys), total)
