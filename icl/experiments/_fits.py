"""Whether a task, a model and a set's examples fit each other, checked before a run."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

import opto

from ..batches import example_of
from ..protocols import ExperimentTask, TaskConfig


def check_task(task: Any, config: TaskConfig, example: PyTree) -> None:
    """Raises `ValueError` unless a task's inputs are those of its interface.

    **Arguments:**

    - `config`: The config that built it. Only the config says how rows become numbers.
    - `example`: `example_of(task)`.
    """
    kind = type(task).__name__
    if getattr(task, "summaries", config.summaries) != config.summaries:
        wanted = f"define them only in the config, {type(config).__name__}"
        raise ValueError(f"the task {kind} has summaries of its own: {wanted}")
    given = jax.eval_shape(task.inputs, example)
    got, wanted = (", ".join(map(_struct, x)) for x in (given, task.interface.structs))
    if got != wanted:
        what = f"the task {kind}: its interface has {wanted}"
        raise ValueError(f"{what}, but its inputs are {got}")


def _struct(x: jax.ShapeDtypeStruct) -> str:
    # JAX's precision setting decides the number of bits, so they are not compared.
    kinds = {jnp.floating: "floats", jnp.integer: "integers"}
    known = (name for kind, name in kinds.items() if jnp.issubdtype(x.dtype, kind))
    return f"{next(known, str(x.dtype))} {list(x.shape)}"


def check_scores(
    what: str,
    sampler: ExperimentTask,
    model: eqx.Module,
    trained: ExperimentTask,
    trained_example: PyTree,
) -> None:
    """Raises `ValueError` for examples that the training task cannot score.

    **Arguments:**

    - `what`: Their name in messages.
    - `sampler`: Draws the examples.
    - `model`: A model built for `trained`.
    - `trained_example`: `example_of(trained)`; to draw it takes a tenth of a second.
    """
    own, known = sampler.interface, trained.interface
    # Ids are looked up in a table, which would not report a wrong one.
    for mine, theirs in zip(own.inputs, known.inputs, strict=False):
        if (mine.count or 0) > (theirs.count or 0):
            got = f"{mine.count} {mine.name} for a model of {theirs.count or 'none'}"
            raise ValueError(f"{what} has {got}")
    if (
        len(own.inputs) != len(known.inputs)
        or own.num_outputs > known.num_outputs
        or own.num_queries != known.num_queries
    ):
        raise ValueError(f"{what} is {own}, but the model is for {known}")
    example = trained_example
    if sampler is not trained:
        example = example_of(sampler)
        if eqx.tree_equal(example, trained_example):
            return  # Scored like those of training, which were checked before.

    def score(model: eqx.Module, example: PyTree) -> dict[str, Array]:
        found = trained.metrics(
            opto.toolkit.lift(trained.forward)(model, example), example
        )
        return {name: jnp.asarray(value) for name, value in found.items()}

    try:
        metrics = eqx.filter_eval_shape(score, model, example)
    except (AttributeError, TypeError, ValueError) as error:
        # JAX raises the last two for wrong shapes. Python raises the first if a model
        # lacks a method that the task calls.
        kind = type(model).__name__
        if own != known:
            sizes = f"{what} is {own}, but the model is for {known}"
            hint = f"{kind} cannot read it; give its task the same sizes"
            raise ValueError(f"{sizes}: {hint}") from error
        reason = f"{type(error).__name__}: {error}"
        scorer = type(trained).__name__
        raise ValueError(f"{what}: {scorer} cannot score {kind}: {reason}") from error
    if "loss" not in metrics or metrics["loss"].shape != ():
        got = ", ".join(f"{name}{list(x.shape)}" for name, x in metrics.items())
        raise ValueError(f"{what}: metrics must have a number 'loss', got {got}")
