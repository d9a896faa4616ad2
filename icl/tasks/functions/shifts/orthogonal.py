"""A query about which the context says nothing."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ....checks import positive
from .._shift import Choices, InputShift, NORMAL, PointMoments, Points


@dataclasses.dataclass(frozen=True)
class OrthogonalQuery(InputShift):
    """The query is orthogonal to points of the context, and has its length before.

    With all points of the context, a query is only possible while there are fewer of
    them than dimensions (Garg et al. 2022, section 4.2). The public codes evaluate
    later positions, too; there, queries are 0 or, in limits_of_icl, not changed at all.
    With a number of `vectors`, every position has such a query.
    """

    vectors: int | None = None
    """To how many random points of the context it is orthogonal, below `dim` and the
    number of points; `None` is all of them."""

    def __post_init__(self):
        if self.vectors is not None:
            positive("vectors", self.vectors)

    def check(self, points: int, dim: int) -> None:
        if points < 2 or dim < 2:
            wanted = "OrthogonalQuery needs at least 2 points of at least 2 components"
            raise ValueError(f"{wanted}, got {points} of {dim}")
        vectors = self.vectors or 0
        for name, size in (("dim", dim), ("points", points)):
            if vectors >= size:
                raise ValueError(f"vectors must be below {name}={size}, got {vectors}")

    def queries(self, points: int, dim: int) -> range:
        """From the second point on; with all vectors, only below `dim`."""
        return range(1, points if self.vectors is not None else min(points, dim))

    def moments(self, dim: int) -> PointMoments:
        """Those of normal components: the direction is random, the length is kept."""
        return NORMAL

    def choices(self, points, dim, *, key) -> Choices:
        earlier = jnp.tri(points, k=-1, dtype=bool)
        # The ranks of random numbers; those of later points are the largest.
        order = jnp.where(earlier, jax.random.uniform(key, (points, points)), 2.0)
        rank = jnp.argsort(jnp.argsort(order, 1), 1)
        count = points if self.vectors is None else self.vectors
        return {"used": earlier & (rank < count)}

    def apply(self, xs: Points, choices: Choices) -> tuple[Points, Points]:
        return xs, jax.vmap(_orthogonal, (0, None, 0))(xs, xs, choices["used"])


def _orthogonal(
    x: Float[Array, " dim"], others: Points, used: Bool[Array, " point"]
) -> Float[Array, " dim"]:
    """The point without its parts along some others, with its length before."""
    _, sizes, directions = jnp.linalg.svd(others * used[:, None], full_matrices=False)
    kept = sizes > 1e-5 * jnp.max(sizes)
    rest = x - (directions @ x * kept) @ directions
    length = jnp.linalg.norm(rest)
    # Where nothing is left, the point is in the span of the others: no such query.
    left = length > 1e-5 * jnp.linalg.norm(x)
    scale = jnp.linalg.norm(x) / jnp.where(left, length, 1.0)
    return jnp.where(left, scale * rest, 0.0)
