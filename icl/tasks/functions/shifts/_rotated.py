"""Normal points whose covariance has given eigenvalues, in random directions."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


def random_rotation(dim: int, *, key: PRNGKeyArray) -> Float[Array, "dim dim"]:
    """An orthogonal matrix, uniform among all."""
    return jnp.linalg.svd(jax.random.normal(key, (dim, dim)))[0]


def stretched(
    xs: Float[Array, "point dim"],
    rotation: Float[Array, "dim dim"],
    lengths: Float[Array, " dim"],
) -> Float[Array, "point dim"]:
    r"""$x\, U \operatorname{diag}(\lambda) U^\top \sqrt{d / \sum \lambda^2}$.

    The mean square of a point stays $d$.
    """
    lengths = lengths * jnp.sqrt(len(lengths) / jnp.sum(lengths**2))
    return xs @ (rotation * lengths) @ rotation.T
