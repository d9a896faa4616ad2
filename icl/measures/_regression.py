"""What measures of in-context regression share: predictions and their gradients.

For batches of `icl.tasks.regression` and any model that answers them.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

import opto

from ..tasks.regression import RegressionExample


def check_regression(batch: Any) -> None:
    """Raises `ValueError` unless the batch is of a task of regression in context."""
    if not isinstance(batch, RegressionExample):
        kind = type(batch).__name__
        raise ValueError(f"it needs sequences of icl.tasks.regression, got {kind}")


def answers(
    model: Any, batch: RegressionExample, edits: Sequence[Any] = ()
) -> Float[Array, "sequence query"]:
    """The model's predictions for the queries.

    If the model gives predictions of each layer, they are those of the last layer.
    """
    found, _ = opto.run(model, batch.x, batch.y, edits=edits)
    return found.reshape(len(found), -1, batch.num_queries)[:, -1]


def sensitivities(
    model: Any, batch: RegressionExample, edits: Sequence[Any] = ()
) -> Float[Array, "sequence query dim"]:
    r"""The weights that the model has in effect: $\partial \hat y / \partial x$.

    The gradient of each query's prediction in the query's own point.
    """

    def total(query_x: Array) -> Float[Array, ""]:
        x = jnp.concatenate([batch.context_x, query_x], -2)
        # No query depends on another one, so one gradient serves all.
        return answers(model, dataclasses.replace(batch, x=x), edits).sum()

    return jax.grad(total)(batch.query_x)


def influences(
    model: Any, batch: RegressionExample, edits: Sequence[Any] = ()
) -> Float[Array, "sequence query pair"]:
    r"""How strongly each pair's value acts: $|\partial \hat y / \partial y_i|$."""

    def prediction(context_y: Array, query: Array) -> Float[Array, ""]:
        y = jnp.concatenate([context_y, batch.query_y], -1)
        found = answers(model, dataclasses.replace(batch, y=y), edits)
        return found[:, query].sum()

    def one(query: Array) -> Float[Array, "sequence pair"]:
        return jnp.abs(jax.grad(prediction)(batch.context_y, query))

    return jax.lax.map(one, jnp.arange(batch.num_queries)).swapaxes(0, 1)
