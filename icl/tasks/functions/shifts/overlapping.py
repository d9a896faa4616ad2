"""A query that the context answers."""

import dataclasses

import jax
import jax.numpy as jnp

from .._shift import Choices, InputShift, NORMAL, PointMoments, Points


@dataclasses.dataclass(frozen=True)
class OverlappingQuery(InputShift):
    """The query is a random point of the context (Garg et al. 2022, section 4.2)."""

    def check(self, points: int, dim: int) -> None:
        if points < 2:
            raise ValueError(f"OverlappingQuery needs at least 2 points, got {points}")

    def queries(self, points: int, dim: int) -> range:
        """From the second point on: the first has no context."""
        return range(1, points)

    def moments(self, dim: int) -> PointMoments:
        """Those of normal components, as a query is one of the points."""
        return NORMAL

    def choices(self, points, dim, *, key) -> Choices:
        last = jnp.maximum(jnp.arange(points), 1)
        return {"source": jax.random.randint(key, (points,), 0, last)}

    def apply(self, xs: Points, choices: Choices) -> tuple[Points, Points]:
        return xs, xs[choices["source"]]
