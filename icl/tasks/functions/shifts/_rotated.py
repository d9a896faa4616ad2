"""Normal points whose covariance has given eigenvalues, in random directions."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._shift import PointMoments


def random_rotation(dim: int, *, key: PRNGKeyArray) -> Float[Array, "dim dim"]:
    """An orthogonal matrix, uniform among all."""
    return jnp.linalg.svd(jax.random.normal(key, (dim, dim)))[0]


def stretched(
    xs: Float[Array, "point dim"],
    rotation: Float[Array, "dim dim"],
    lengths: Float[np.ndarray, " dim"],
) -> Float[Array, "point dim"]:
    r"""$x\, U \operatorname{diag}(\lambda) U^\top \sqrt{d / \sum \lambda^2}$.

    The mean square of a point stays $d$.
    """
    return xs @ (rotation * _scaled(lengths).astype(xs.dtype)) @ rotation.T


def stretched_moments(lengths: Float[np.ndarray, " dim"]) -> PointMoments:
    r"""The moments of a component of such a point, over rotations.

    Given $U$, a component is normal; its variance is $\sum_j \lambda_j^2 U_{ij}^2$. The
    squares of a unit vector's entries have the mean products $1 / (d (d + 2))$, and 3
    times that for a square with itself. So with $\sum \lambda^2 = d$, the fourth moment
    is $3 (d^2 + 2 \sum \lambda^4) / (d (d + 2))$.
    """
    dim = len(lengths)
    fourth = 3 * (dim**2 + 2 * np.sum(_scaled(lengths) ** 4)) / (dim * (dim + 2))
    return PointMoments(1.0, float(fourth))


def _scaled(lengths: Float[np.ndarray, " dim"]) -> Float[np.ndarray, " dim"]:
    """With a mean square of 1."""
    return lengths * np.sqrt(len(lengths) / np.sum(lengths**2))
