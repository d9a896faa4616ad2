"""Orders of the pairs of a context, and what the order of noisy pairs may be.

All sorts are stable: equal pairs stay as they were drawn.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray


@dataclasses.dataclass(frozen=True)
class AsDrawn:
    """Pairs stay as they were drawn; they are independent."""

    needs_noise: ClassVar[bool] = False

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

    needs_noise: ClassVar[bool] = False

    def indices(self, x, residuals, *, key: PRNGKeyArray) -> Int[Array, " pair"]:
        return jax.random.permutation(key, len(x))


@dataclasses.dataclass(frozen=True)
class SmallToLargeNorm:
    """Pairs by the Euclidean norm of their points, the smallest first."""

    needs_noise: ClassVar[bool] = False

    def indices(self, x, residuals, *, key: PRNGKeyArray) -> Int[Array, " pair"]:
        return jnp.argsort(jnp.sum(x**2, -1))


@dataclasses.dataclass(frozen=True)
class EasyToHard:
    r"""Pairs by their residual $|y_i - w \cdot x_i|$, the smallest first."""

    needs_noise: ClassVar[bool] = True

    def indices(self, x, residuals, *, key: PRNGKeyArray) -> Int[Array, " pair"]:
        return jnp.argsort(residuals)


@dataclasses.dataclass(frozen=True)
class HardToEasy:
    r"""Pairs by their residual $|y_i - w \cdot x_i|$, the largest first."""

    needs_noise: ClassVar[bool] = True

    def indices(self, x, residuals, *, key: PRNGKeyArray) -> Int[Array, " pair"]:
        return jnp.argsort(-residuals)


Ordering = AsDrawn | RandomOrder | SmallToLargeNorm | EasyToHard | HardToEasy


def front(
    order: Int[Array, " pair"], first: Bool[Array, " pair"]
) -> Int[Array, " pair"]:
    """The order with some pairs moved to the front; otherwise as it was.

    **Arguments:**

    - `first`: Which of the drawn pairs move; not in the order of `order`.
    """
    return order[jnp.argsort(~first[order])]
