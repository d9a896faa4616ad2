"""What measures of in-context regression share: predictions and their gradients.

For batches of `icl.tasks.regression` and any model that answers them.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

import opto

from ..checks import check_not_negative, check_scale
from ..models.linear_attention import LinearSelfAttention
from ..tasks.regression import RegressionExample
from ._measure import OfModel


def of_regression(
    fn: Callable[[Any, RegressionExample, tuple], Array],
    axes: str,
    label: str,
    *,
    needs: tuple[str, ...] = ("blocks",),
    reads: Literal["weights", "forwards"] = "forwards",
) -> OfModel:
    """A measure `fn(model, batch, edits)` of batches of `icl.tasks.regression`."""

    def checked(model: Any, task: Any, batch: Any, edits: tuple) -> Array:
        check_regression(batch)
        return fn(model, batch, edits)

    return OfModel(checked, axes, label, reads=reads, needs=needs)


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


def half_error(
    model: Any, batch: RegressionExample, edits: Sequence[Any] = ()
) -> Float[Array, ""]:
    """The loss: half the mean squared error of the queries."""
    return 0.5 * jnp.mean((answers(model, batch, edits) - batch.query_y) ** 2)


def check_linear(model: Any) -> None:
    """Raises `ValueError` unless the model is of linear self-attention."""
    if not isinstance(model, LinearSelfAttention):
        kind = type(model).__name__
        raise ValueError(f"it needs a LinearSelfAttention, got {kind}")


def check_rate(rate: float | None, curvature: float) -> None:
    """Raises `ValueError` for a curvature without a rate, or values out of range."""
    if rate is not None:
        check_scale("rate", rate)
    elif curvature:
        raise ValueError(f"curvature={curvature} needs a rate, got None")
    check_not_negative("curvature", curvature)
