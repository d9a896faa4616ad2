"""Whether the first layer copies tokens from one place to the next."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

import opto

from ..checks import positive
from ._measure import OfModel
from ._text import register


@register
def copying(position_channels: int = 0) -> OfModel:
    r"""How strongly the first layer's tokens depend on others: `[own, next, other]`.

    The sensitivity of token $k$ to token $j$ is the norm of the gradient of the sum of
    token $k$ after the first layer in token $j$ before it, as a mean over sequences
    (von Oswald et al. 2023, section 5). `own` is $j = k$, `next` is $j = k + 1$, and
    `other` is the mean over all $j \ne k$. The last token, a query, is left out, and so
    is the $k$ whose next token it is.

    **Arguments:** `position_channels`: How many of the last channels of `embed` are
    positions, in which no gradient is taken. It is that of the model, if it says it.
    """
    if position_channels:
        positive("position_channels", position_channels)

    def fn(model: Any, task: Any, batch: Any, edits: tuple) -> Array:
        inputs = task.inputs(batch)
        _, record = opto.run(model, *inputs, record=["embed"], edits=edits)
        slopes = _slopes(model, inputs, record["embed"], edits)
        last = getattr(model, "position_channels", position_channels)
        return dependence(slopes[..., : slopes.shape[-1] - last])

    label = "sensitivity of the first layer's tokens"
    return OfModel(fn, "own_next_other", label, needs=("blocks",))


def _slopes(
    model: Any,
    inputs: tuple,
    embed: Float[Array, "sequence token d_model"],
    edits: tuple,
) -> Float[Array, "token token d_model"]:
    """The gradient of the sum of each token in all tokens, a mean over sequences."""
    site = "blocks.0.resid_post"

    def after(embed: Array, token: Array) -> Float[Array, ""]:
        every = [*edits, opto.Patch("embed", {"embed": embed})]
        _, record = opto.run(model, *inputs, record=[site], edits=every)
        return record[site][:, token].sum()

    def one(token: Array) -> Float[Array, "token d_model"]:
        return jax.grad(after)(embed, token).mean(0)

    return jax.lax.map(one, jnp.arange(embed.shape[1]))


def dependence(slopes: Float[Array, "token token channel"]) -> Float[Array, "3"]:
    """The means of `copying` from the gradient of each token in all tokens."""
    sizes = jnp.linalg.norm(slopes, axis=-1)[:-2, :-1]
    count, others = sizes.shape
    own = jnp.eye(count, others, dtype=bool)
    rest = jnp.where(own, 0, sizes).sum() / (count * (others - 1))
    after = jnp.eye(count, others, k=1, dtype=bool)
    return jnp.stack(
        [
            jnp.where(own, sizes, 0).sum() / count,
            jnp.where(after, sizes, 0).sum() / count,
        ]
        + [rest]
    )
