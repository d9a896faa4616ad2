"""Queries that are unlike the points of their context, or that the context answers."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ....checks import positive
from .._shift import Choices, InputShift, NORMAL, PointMoments, Points


class _NormalQuery(InputShift):
    """Shifts that keep the moments of a query's component."""

    def moments(self, dim: int) -> PointMoments:
        """Those of a normal component: no sign, choice or direction changes them."""
        return NORMAL


@dataclasses.dataclass(frozen=True)
class OppositeQuery(_NormalQuery):
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
        if self.flipped is not None and self.flipped > dim:
            raise ValueError(f"flipped must be at most dim={dim}, got {self.flipped}")

    def queries(self, points: int, dim: int) -> range:
        """Every position."""
        return range(points)

    def choices(self, points, dim, *, key) -> Choices:
        sign_key, order_key = jax.random.split(key)
        order = jax.random.permutation(order_key, dim)
        count = dim if self.flipped is None else self.flipped
        signs = jax.random.rademacher(sign_key, (dim,), dtype=float)
        return {"signs": signs, "flipped": order < count}

    def apply(self, xs: Points, choices: Choices) -> tuple[Points, Points]:
        within = jnp.abs(xs) * choices["signs"]
        return within, jnp.where(choices["flipped"], -within, within)


@dataclasses.dataclass(frozen=True)
class OrthantContext(_NormalQuery):
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
                raise ValueError("constrained=1 changes nothing: leave the shift out")

    def check(self, points: int, dim: int) -> None:
        if self.constrained is not None and self.constrained > points:
            got = f"got {self.constrained}"
            raise ValueError(f"constrained must be at most points={points}, {got}")

    def queries(self, points: int, dim: int) -> range:
        """Every position."""
        return range(points)

    def choices(self, points, dim, *, key) -> Choices:
        sign_key, order_key = jax.random.split(key)
        order = jax.random.permutation(order_key, points)
        count = points if self.constrained is None else self.constrained
        signs = jax.random.rademacher(sign_key, (dim,), dtype=float)
        return {"signs": signs, "constrained": order < count}

    def apply(self, xs: Points, choices: Choices) -> tuple[Points, Points]:
        within = jnp.abs(xs) * choices["signs"]
        return jnp.where(choices["constrained"][:, None], within, xs), xs


@dataclasses.dataclass(frozen=True)
class OrthogonalQuery(_NormalQuery):
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
        vectors = self.vectors or 0
        for name, size in (("dim", dim), ("points", points)):
            if vectors >= size:
                raise ValueError(f"vectors must be below {name}={size}, got {vectors}")

    def queries(self, points: int, dim: int) -> range:
        """From the second point on; with all vectors, only below `dim`."""
        return range(1, points if self.vectors is not None else min(points, dim))

    def choices(self, points, dim, *, key) -> Choices:
        earlier = jnp.tri(points, k=-1, dtype=bool)
        # The ranks of random numbers; those of later points are the largest.
        order = jnp.where(earlier, jax.random.uniform(key, (points, points)), 2.0)
        rank = jnp.argsort(jnp.argsort(order, 1), 1)
        count = points if self.vectors is None else self.vectors
        return {"used": earlier & (rank < count)}

    def apply(self, xs: Points, choices: Choices) -> tuple[Points, Points]:
        return xs, jax.vmap(_orthogonal, (0, None, 0))(xs, xs, choices["used"])


@dataclasses.dataclass(frozen=True)
class OverlappingQuery(_NormalQuery):
    """The query is a random point of the context (Garg et al. 2022, section 4.2)."""

    def queries(self, points: int, dim: int) -> range:
        """From the second point on: the first has no context."""
        return range(1, points)

    def choices(self, points, dim, *, key) -> Choices:
        last = jnp.maximum(jnp.arange(points), 1)
        return {"source": jax.random.randint(key, (points,), 0, last)}

    def apply(self, xs: Points, choices: Choices) -> tuple[Points, Points]:
        return xs, xs[choices["source"]]


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
