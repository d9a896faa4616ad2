"""A context whose points lie in one orthant."""

import dataclasses

import jax
import jax.numpy as jnp

from ....checks import positive
from .._shift import Choices, InputShift, NORMAL, PointMoments, Points, refuse_no_change


@dataclasses.dataclass(frozen=True)
class OrthantContext(InputShift):
    """Points of the context lie in one random orthant; the query may lie anywhere.

    Garg et al. (2022, section 4.2, "different orthants") constrain all points.
    """

    constrained: int | None = None
    """How many points of a prompt lie in that orthant, at random places; `None` is all
    of them. A single one changes nothing, as its signs are still random."""

    def __post_init__(self):
        if self.constrained is not None:
            positive("constrained", self.constrained)
            if self.constrained == 1:
                refuse_no_change("constrained", 1)

    def check(self, points: int, dim: int) -> None:
        if points < 2:
            raise ValueError(f"OrthantContext needs at least 2 points, got {points}")
        if self.constrained is not None and self.constrained > points:
            got = f"got {self.constrained}"
            raise ValueError(f"constrained must be at most points={points}, {got}")

    def queries(self, points: int, dim: int) -> range:
        """Every position."""
        return range(points)

    def moments(self, dim: int) -> PointMoments:
        """Those of normal components, as a query is one."""
        return NORMAL

    def choices(self, points, dim, *, key) -> Choices:
        sign_key, order_key = jax.random.split(key)
        order = jax.random.permutation(order_key, points)
        count = points if self.constrained is None else self.constrained
        signs = jax.random.rademacher(sign_key, (dim,), dtype=float)
        return {"signs": signs, "constrained": order < count}

    def apply(self, xs: Points, choices: Choices) -> tuple[Points, Points]:
        within = jnp.abs(xs) * choices["signs"]
        return jnp.where(choices["constrained"][:, None], within, xs), xs
