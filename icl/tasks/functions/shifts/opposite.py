"""A query on the other side of the context."""

import dataclasses

import jax
import jax.numpy as jnp

from ....checks import positive
from .._shift import Choices, InputShift, NORMAL, PointMoments, Points


@dataclasses.dataclass(frozen=True)
class OppositeQuery(InputShift):
    """The context lies in one random orthant; the query's signs are opposite to it.

    With all components, this is the published shift of Garg et al. (public code). With
    `flipped` components, only these have opposite signs, and the others have the
    context's signs. limits_of_icl flips signs of a query whose signs are random anyway,
    so that its number of flips changes nothing: that setting is `OrthantContext()`.
    """

    flipped: int | None = None
    """How many components of the query have opposite signs; `None` is all of them."""

    def __post_init__(self):
        if self.flipped is not None:
            positive("flipped", self.flipped)

    def check(self, points: int, dim: int) -> None:
        if points < 2:
            raise ValueError(f"OppositeQuery needs at least 2 points, got {points}")
        if self.flipped is not None and self.flipped > dim:
            raise ValueError(f"flipped must be at most dim={dim}, got {self.flipped}")

    def queries(self, points: int, dim: int) -> range:
        """Every position."""
        return range(points)

    def moments(self, dim: int) -> PointMoments:
        """Those of normal components: signs do not change them."""
        return NORMAL

    def choices(self, points, dim, *, key) -> Choices:
        sign_key, order_key = jax.random.split(key)
        order = jax.random.permutation(order_key, dim)
        count = dim if self.flipped is None else self.flipped
        signs = jax.random.rademacher(sign_key, (dim,), dtype=float)
        return {"signs": signs, "flipped": order < count}

    def apply(self, xs: Points, choices: Choices) -> tuple[Points, Points]:
        within = jnp.abs(xs) * choices["signs"]
        return within, jnp.where(choices["flipped"], -within, within)
