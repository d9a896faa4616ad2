"""One trained layer of linear self-attention, applied many times.

For tasks of `icl.tasks.regression`. Means over sequences are ruled by the few that
diverge, so there are quantiles beside them.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..checks import positive
from ..models.linear_attention import LinearSelfAttention
from ..models.stack import ResidualUpdate
from ..tasks.regression import RegressionExample
from ._measure import OfModel
from ._regression import check_linear, of_regression
from ._text import register


STATISTICS = ("mean", "median", "10 %", "90 %", "diverged")
DIVERGED = 10.0
"""A sequence has diverged if its loss is this many times the mean of predicting 0."""


@register
def roll_out(steps: int = 50, damping: float = 0.75) -> OfModel:
    """The loss if the first layer is applied again and again: `[step, statistic]`.

    Step 0 is before the layer. Each step changes only the channel of values. The
    statistics over sequences are the mean, the median, the first and the last decile,
    and the share of sequences that have diverged: their loss is not finite, or over 10
    times the mean loss of predicting 0. It needs linear self-attention.

    **Arguments:** `damping`: The factor on what the layer adds, above 0.
    """
    positive("steps", steps)
    update = ResidualUpdate(damping, "last")

    def fn(model: Any, batch: RegressionExample, edits: tuple) -> Array:
        check_linear(model)
        found = rolled_out(model, batch, steps, update)
        losses = 0.5 * jnp.mean((found - batch.query_y[:, None]) ** 2, -1)
        return spread(losses, batch)

    label = "loss of one layer, applied again and again"
    return of_regression(fn, "step statistic", label, reads="weights")


def rolled_out(
    model: LinearSelfAttention,
    batch: RegressionExample,
    steps: int,
    update: ResidualUpdate,
) -> Float[Array, "sequence step query"]:
    """The predictions after the first layer was applied 0, 1, … times."""
    block = dataclasses.replace(model.blocks[0], update=update)

    def one(x: Array, y: Array) -> Float[Array, "step query"]:
        def step(stream: Array, _: None) -> tuple[Array, Array]:
            stream = block(stream, model.positions)
            return stream, model.read(stream)

        known = y.at[-model.num_queries :].set(0)
        tokens = jnp.concatenate([x, known[:, None]], 1)
        after = jax.lax.scan(step, tokens, length=steps)[1].reshape(steps, -1)
        return jnp.concatenate([jnp.zeros_like(after[:1]), after])

    return jax.vmap(one)(batch.x, batch.y)


def spread(
    losses: Float[Array, "sequence step"], batch: RegressionExample
) -> Float[Array, "step statistic"]:
    """The statistics of `roll_out` for the losses of any learner.

    A quantile is one of the losses: the larger one, if it is between two.
    """
    zero = 0.5 * jnp.mean(batch.query_y**2)
    lost = ~(losses <= DIVERGED * zero)  # NaN has diverged, too.
    ordered = jnp.where(jnp.isnan(losses), jnp.inf, losses)
    # Between a finite number and infinity, `jnp.quantile` gives NaN.
    ordered = jnp.sort(ordered, 0)
    last = len(losses) - 1
    at = {
        share: ordered[int(np.floor(share * last + 0.5))] for share in (0.5, 0.1, 0.9)
    }
    return jnp.stack([losses.mean(0), *at.values(), lost.mean(0)], -1)
