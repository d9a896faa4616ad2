"""Whether a shift changes the distribution of prompts at all.

Two published sweeps did not: their settings had no effect on what was evaluated.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..task import FunctionExample


def largest_change(shifted: FunctionExample, standard: FunctionExample) -> float:
    """How clearly two batches of prompts have different distributions.

    The mean of each of some numbers of a prompt is compared: lengths of points and of
    the query, products between points, and agreement of their signs. The numbers do not
    depend on directions, so they also show shifts that are random in each prompt.

    Prompts are compared in pairs. Batches may be independent; if they are of the same
    standard normal draws, weak shifts are clearer.

    **Returns:** The largest difference of means in standard errors; below 5, it may be
    chance.
    """
    first, second = (
        np.asarray(_numbers(x.xs, _last(x.counts)), float) for x in (shifted, standard)
    )
    gap = first - second
    error = gap.std(0) / np.sqrt(len(gap))
    return float(np.max(np.abs(gap.mean(0)) / np.where(error > 0, error, np.inf)))


def check_change(
    name: str, shifted: FunctionExample, standard: FunctionExample
) -> None:
    """Raises `ValueError` if a shift's prompts are distributed like standard ones.

    **Arguments:**

    - `name`: Its name in the message.
    - `shifted`, `standard`: Batches of one size, whose queries are at the same
        positions.
    """
    found = largest_change(shifted, standard)
    if found < CLEAR:
        got = f"the largest difference is {found:.1f} standard errors"
        wanted = f"{CLEAR:.0f} in {len(shifted.xs)} prompts"
        raise ValueError(f"the shift {name} changes nothing: {got}, wanted {wanted}")


CLEAR = 5.0
"""From so many standard errors on, a difference is no chance."""


def _last(counts: Array) -> Int[Array, " sequence"]:
    """The position of the last prediction that counts."""
    places = jnp.arange(counts.shape[-1])
    return jnp.max(jnp.where(counts, places, 0), -1)


@jax.jit
@jax.vmap
def _numbers(
    xs: Float[Array, "point dim"], at: Int[Array, ""]
) -> Float[Array, " number"]:
    points, dim = xs.shape
    query, before = xs[at], jnp.arange(points) < at
    context = xs * before[:, None]
    count = jnp.maximum(before.sum(), 1)
    signs, products = jnp.sign(context), context @ context.T
    off = products - jnp.diag(jnp.diag(products))
    distance = jnp.where(before, jnp.sum((context - query) ** 2, 1), jnp.inf)
    largest = jnp.max(jnp.where(before, jnp.abs(context @ query), 0.0))
    balance = signs.sum(0)
    return jnp.stack(
        [
            jnp.sum(query**2) / dim,
            jnp.sum(context**2) / (dim * count),
            jnp.sum((context @ query) ** 2) / (dim * count),
            largest,
            jnp.sqrt(jnp.minimum(jnp.min(distance), 1e6)),
            jnp.sum(off**2) / (dim * count**2),
            # Pairs of points in one orthant, and of a point and the query.
            jnp.sum(balance**2) / count,
            jnp.sum(balance * jnp.sign(query)) / jnp.sqrt(count),
        ]
    )
