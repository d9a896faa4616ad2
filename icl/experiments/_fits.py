"""Whether a task, a model and a set's examples fit each other, before anything runs."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

import opto

from ..batches import example_of
from ..protocols import ExperimentTask


_MEMBERS = ("sample", "forward", "metrics", "interface", "inputs")


def check_task(task: Any) -> None:
    """Raises `ValueError` unless a task has what a run needs, and of one shape."""
    kind = type(task).__name__
    if lacking := [name for name in _MEMBERS if not hasattr(task, name)]:
        raise ValueError(f"the task {kind} lacks {', '.join(lacking)}")
    given = jax.eval_shape(task.inputs, example_of(task))
    got, wanted = (list(map(_struct, x)) for x in (given, task.interface.structs))
    if got != wanted:
        what = f"the task {kind}: its interface has {', '.join(wanted)}"
        raise ValueError(f"{what}, its inputs are {', '.join(got)}")


def _struct(x: jax.ShapeDtypeStruct) -> str:
    # Of any precision, which a switch of JAX sets.
    kind = "floats" if jnp.issubdtype(x.dtype, jnp.floating) else "integers"
    return f"{kind} {list(x.shape)}"


def check_scores(
    what: str, sampler: ExperimentTask, model: eqx.Module, trained: ExperimentTask
) -> None:
    """Raises `ValueError` for examples that the task of training cannot score.

    **Arguments:**

    - `what`: Of which they are, for messages.
    - `sampler`: Draws them.
    - `model`: Built for `trained`.
    """
    own, known = sampler.interface, trained.interface
    # Ids are looked up in a table, where nothing else would say so.
    for mine, theirs in zip(own.inputs, known.inputs, strict=False):
        if (mine.count or 0) > (theirs.count or 0):
            got = f"{mine.count} {mine.name} for a model of {theirs.count or 'none'}"
            raise ValueError(f"{what} has {got}")
    if len(own.inputs) != len(known.inputs) or own.num_outputs > known.num_outputs:
        raise ValueError(f"{what} is {own}, for a model of {known}")
    example, theirs = example_of(sampler), example_of(trained)
    got, wanted = jax.tree.structure(example), jax.tree.structure(theirs)
    if got != wanted:
        raise ValueError(f"{what} has examples {got}, those of training are {wanted}")

    def score(model: eqx.Module, example: PyTree) -> dict[str, Array]:
        return trained.metrics(opto.lift(trained.forward)(model, example), example)

    try:
        metrics = eqx.filter_eval_shape(score, model, example)
    except (AttributeError, TypeError, ValueError) as error:
        # Of shapes JAX raises either, and of another kind of model Python the first.
        kinds = f"{type(trained).__name__} with a {type(model).__name__}"
        raise ValueError(f"{what} is {own}, for {kinds} of {known}: {error}") from error
    if getattr(metrics.get("loss"), "shape", None) != ():
        got = ", ".join(f"{name}{list(x.shape)}" for name, x in metrics.items())
        raise ValueError(f"{what}: metrics must have a number 'loss', got {got}")
