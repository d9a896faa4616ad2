"""Noise on some pairs of a context: which pairs, what they become, where they are.

The study of order and noise adds it before it orders pairs. Queries and their targets
stay as they are.
"""

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ...checks import check_one_of, check_probability, check_scale


Placement = Literal["mixed", "clean_first", "noisy_first"]
Pairs = tuple[Float[Array, "pair dim"], Float[Array, " pair"]]


@dataclasses.dataclass(frozen=True)
class FreshTeacher:
    """Pairs of another task: new points, and values by one other weight vector."""

    def pairs(self, count: int, draws: Any, *, key: PRNGKeyArray) -> Pairs:
        """New pairs.

        **Arguments:** `draws`: What draws points and weights: the task.
        """
        x_key, w_key = jax.random.split(key)
        x = draws.draw_points(count, key=x_key)
        return x, x @ draws.draw_weights(key=w_key)


@dataclasses.dataclass(frozen=True)
class MatchedMarginals:
    """New points, and values that are independent of them and of each other.

    Points alone and a value alone are distributed as in clean pairs.
    """

    def pairs(self, count: int, draws, *, key: PRNGKeyArray) -> Pairs:
        x_key, key = jax.random.split(key)

        def value(key: PRNGKeyArray) -> Float[Array, ""]:
            point_key, w_key = jax.random.split(key)
            (point,) = draws.draw_points(1, key=point_key)
            return point @ draws.draw_weights(key=w_key)

        values = jax.vmap(value)(jax.random.split(key, count))
        return draws.draw_points(count, key=x_key), values


@dataclasses.dataclass(frozen=True)
class UniformPairs:
    """Points' components and values are independent and uniform in ± `bound`."""

    bound: float = 0.5
    """Above 0."""

    def __post_init__(self):
        check_scale("bound", self.bound)

    def pairs(self, count: int, draws, *, key: PRNGKeyArray) -> Pairs:
        x_key, y_key = jax.random.split(key)
        low, high = -self.bound, self.bound
        x = jax.random.uniform(x_key, (count, draws.dim), minval=low, maxval=high)
        return x, jax.random.uniform(y_key, (count,), minval=low, maxval=high)


PairSource = FreshTeacher | MatchedMarginals | UniformPairs


@dataclasses.dataclass(frozen=True)
class NoisyValues:
    """Some pairs have Gaussian noise on their values."""

    probability: float
    """Of each pair to be noisy, in [0, 1]."""
    std: float = 1.0
    """The noise's standard deviation, above 0."""
    placement: Placement = "mixed"
    """Where noisy pairs are: `"mixed"`, `"clean_first"` or `"noisy_first"`."""

    def __post_init__(self):
        _check(self)
        check_scale("std", self.std)

    def apply(
        self,
        x: Float[Array, "pair dim"],
        y: Float[Array, " pair"],
        draws: Any,
        *,
        key: PRNGKeyArray,
    ) -> Pairs:
        """What pairs become if they are noisy."""
        return x, y + self.std * jax.random.normal(key, y.shape)


@dataclasses.dataclass(frozen=True)
class RandomPairs:
    """Some pairs are replaced by pairs that do not belong to the task."""

    probability: float
    """Of each pair to be replaced, in [0, 1]."""
    source: PairSource = FreshTeacher()
    """Where the new pairs come from."""
    placement: Placement = "mixed"
    """Where the new pairs are: `"mixed"`, `"clean_first"` or `"noisy_first"`."""

    def __post_init__(self):
        _check(self)

    def apply(self, x, y, draws, *, key: PRNGKeyArray) -> Pairs:
        return self.source.pairs(len(y), draws, key=key)


PairNoise = NoisyValues | RandomPairs


def placed(
    order: Int[Array, " pair"], noisy: Bool[Array, " pair"], placement: Placement
) -> Int[Array, " pair"]:
    """The order with noisy pairs moved to where they are placed; otherwise as it was.

    **Arguments:**

    - `noisy`: Which of the drawn pairs are noisy; not in the order of `order`.
    """
    if placement == "mixed":
        return order
    first = noisy if placement == "noisy_first" else ~noisy
    return order[jnp.argsort(~first[order])]


def _check(noise: PairNoise) -> None:
    check_probability("probability", noise.probability)
    check_one_of("placement", noise.placement, Placement)
