"""The compiled part of training and evaluation, for one member."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Int, PyTree

import opto
from opto.toolkit import ran_with

from ..batches import first_of, size_of
from ..devices import on_cpu
from ..protocols import MOST_SEEN
from ..random import split
from ._members import BATCH
from .freezing import trained_part
from .schedules import Training


# Evaluation sets are mapped in pieces of at most so many examples, to limit memory. On
# a CPU, smaller pieces stay in its caches; measured (benchmarks/RESULTS.md, "Pieces of
# evaluation sets").
_EVALUATION_CHUNK, _EVALUATION_CHUNK_ON_CPU = 1024, 256


class State(eqx.Module):
    """What a step changes: the arrays of model and optimizer, and the step count."""

    model: PyTree
    optimizer: PyTree
    step: Int[Array, ""]


def initial_state(member: Any, batch_size: int) -> State:
    """The state before the first step."""
    arrays = eqx.filter(member.model, eqx.is_array)
    trained, _ = trained_part(member.model, member.freeze)
    optimizer = member.optimizer.transform(batch_size).init(trained)
    return State(arrays, optimizer, jnp.zeros((), jnp.int32))


BUFFER = 4096
"""The largest number of steps in one dispatch: it collects their losses in rows."""


def stepper(
    training: Training, sharing: int = 1
) -> Callable[..., tuple[State, dict[str, Array]]]:
    """The function `(member, state, count)` that does `count` steps.

    It returns the new state and the steps' metrics. These are in the first rows of
    arrays of length `BUFFER`.

    **Arguments:**

    - `sharing`: The number of devices that share each batch, along the axis `BATCH`.
    """

    def steps(member: Any, state: State, count: Int[Array, ""]):
        def body(i, carry):
            state, rows = carry
            state, row = _step(member, state, training, sharing)
            return state, {name: rows[name].at[i].set(row[name]) for name in rows}

        rows = {name: jnp.zeros(BUFFER) for name in ("loss", "grad_norm")}
        return jax.lax.fori_loop(0, count, body, (state, rows))

    return steps


def evaluator(sharing: int = 1) -> Callable[..., dict[str, dict[str, Array]]]:
    """The function `(member, state)` that evaluates, under the member's edits.

    It returns the metrics of each example of each evaluation set.

    **Arguments:**

    - `sharing`: The number of devices that share each set, along the axis `BATCH`.
    """

    def evaluate(member: Any, state: State) -> dict[str, dict[str, Array]]:
        model = eqx.combine(state.model, member.model)
        # Sets of one shape are traced once.
        score = jax.jit(
            lambda part: evaluate_batch(model, member.task, part, member.edits)
        )
        return {
            name: _shared(sharing, batch, score)
            for name, batch in member.evaluations.items()
        }

    return evaluate


def _shared(sharing: int, batch: PyTree, fn: Callable[[PyTree], PyTree]) -> PyTree:
    """A function of a batch's examples, each device computing it for some of them."""
    if sharing == 1:
        return fn(batch)
    size = size_of(batch)
    each = -(-size // sharing)
    # The last device may repeat the last example; its results are cut off.
    first = each * jax.lax.axis_index(BATCH)
    own = jnp.minimum(first + jnp.arange(each), size - 1)
    found = fn(jax.tree.map(lambda x: x[own], batch))
    gathered = jax.lax.all_gather(found, BATCH, tiled=True)
    return jax.tree.map(lambda x: x[:size], gathered)


def evaluate_batch(
    model: PyTree,
    task: Any,
    batch: PyTree,
    edits: tuple[opto.toolkit.AbstractEdit, ...],
) -> dict[str, Array]:
    """The task's metrics for each example of a batch, `[example, ...]` each."""
    forward = opto.toolkit.lift(task.forward)

    def one(example):
        return task.metrics(forward(model, example, edits=edits), example)

    most = _EVALUATION_CHUNK_ON_CPU if on_cpu() else _EVALUATION_CHUNK
    size = size_of(batch)
    # As equal as can be: a smaller last piece is compiled by itself.
    pieces = -(-size // most)
    return jax.lax.map(one, batch, batch_size=-(-size // pieces))


def warn_of_idle_edits(member: Any, training: Training) -> None:
    """Warns of edits that change nothing on the first batch; see `opto.run`."""
    if not member.edits:
        return
    key = jax.random.fold_in(jax.random.key(member.train_seed), 0)
    keys = jax.random.split(key, training.batch_size)[: training.microbatch_size]
    batch = jax.vmap(lambda key: member.task.sample(key=key, seen=0))(keys)
    forward = opto.toolkit.on_examples(
        member.task.forward, member.model, first_of(batch)
    )
    ran = ran_with(forward, tuple(jax.tree.leaves(batch)), (), member.edits)
    ran.warn("on the first batch of training")


def _step(member: Any, state: State, training: Training, sharing: int):
    batch_size = training.batch_size
    # The batch is a function of the seed and the step: a resumed run sees the same one.
    key = jax.random.fold_in(jax.random.key(member.train_seed), state.step)
    # A curriculum has ended by then.
    seen = batch_size * jnp.minimum(state.step, MOST_SEEN // batch_size)
    keys = split(key, batch_size)
    if sharing > 1:
        keys = keys.reshape(sharing, -1)[jax.lax.axis_index(BATCH)]
    keys = keys.reshape(-1, training.microbatch_size or len(keys))
    model = eqx.combine(state.model, member.model)
    trained, rest = trained_part(model, member.freeze)
    forward = opto.toolkit.lift(member.task.forward)

    def loss(trained, keys):
        model = eqx.combine(trained, rest)

        def one(key):
            with jax.named_scope("sample"):  # A name in profiles of a step.
                example = member.task.sample(key=key, seen=seen)
            outputs = forward(model, example, edits=member.edits)
            return member.task.metrics(outputs, example)["loss"]

        return jnp.mean(jax.vmap(one)(keys))

    value, grad = _mean_over(jax.value_and_grad(loss), trained, keys)
    if sharing > 1:
        # One array: each communication between devices costs time.
        flat, unflat = ravel_pytree((value, grad))
        value, grad = unflat(jax.lax.pmean(flat, BATCH))
    with jax.named_scope("optimizer"):
        updates, optimizer = member.optimizer.transform(batch_size).update(
            grad, state.optimizer, trained
        )
        model = eqx.combine(optax.apply_updates(trained, updates), rest)
        row = {"loss": value, "grad_norm": _norm(grad)}
    arrays = eqx.filter(model, eqx.is_array)
    return State(arrays, optimizer, state.step + 1), row


def _norm(tree: PyTree) -> Array:
    """The Euclidean norm of all arrays together."""
    # XLA's CPU compiler is slow at sums of squares, and fast at products of vectors.
    leaves = [leaf.ravel() for leaf in jax.tree.leaves(tree)]
    return jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in leaves))


def _mean_over(value_and_grad, trained: PyTree, keys: Array) -> tuple[Array, PyTree]:
    """The mean of a loss and its gradient over microbatches, one after the other."""
    if len(keys) == 1:
        return value_and_grad(trained, keys[0])

    def add(total, keys):
        return jax.tree.map(jnp.add, total, value_and_grad(trained, keys)), None

    zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, trained))
    total, _ = jax.lax.scan(add, zero, keys)
    return jax.tree.map(lambda x: x / len(keys), total)
