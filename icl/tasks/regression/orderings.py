"""Orders of the pairs of a context.

All sorts are stable: equal pairs stay as they were drawn.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray


@dataclasses.dataclass(frozen=True)
class AsDrawn:
    """Pairs stay as they were drawn; they are independent."""

    def indices(
        self,
        x: Float[Array, "pair dim"],
        residuals: Float[Array, " pair"],
        *,
        key: PRNGKeyArray,
    ) -> Int[Array, " pair"]:
        """Which pair comes at each place.

        **Arguments:**

        - `residuals`: $|y_i - w \\cdot x_i|$ of each pair, with its noise.
        """
        return jnp.arange(len(x))


@dataclasses.dataclass(frozen=True)
class RandomOrder:
    """A random permutation of the pairs, a new one in each example.

    The distribution is that of `AsDrawn`, but the example says the permutation.
    """

    def indices(self, x, residuals, *, key: PRNGKeyArray) -> Int[Array, " pair"]:
        return jax.random.permutation(key, len(x))


@dataclasses.dataclass(frozen=True)
class SmallToLargeNorm:
    """Pairs by the Euclidean norm of their points, the smallest first."""

    def indices(self, x, residuals, *, key: PRNGKeyArray) -> Int[Array, " pair"]:
        return jnp.argsort(jnp.sum(x**2, -1))


@dataclasses.dataclass(frozen=True)
class EasyToHard:
    r"""Pairs by their residual $|y_i - w \cdot x_i|$, the smallest first."""

    def indices(self, x, residuals, *, key: PRNGKeyArray) -> Int[Array, " pair"]:
        return jnp.argsort(residuals)


@dataclasses.dataclass(frozen=True)
class HardToEasy:
    r"""Pairs by their residual $|y_i - w \cdot x_i|$, the largest first."""

    def indices(self, x, residuals, *, key: PRNGKeyArray) -> Int[Array, " pair"]:
        return jnp.argsort(-residuals)


Ordering = AsDrawn | RandomOrder | SmallToLargeNorm | EasyToHard | HardToEasy
