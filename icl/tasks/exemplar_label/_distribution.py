"""Random integers, and distributions over classes, made from words of random bits.

One call of the generator gives all the words that a sequence needs. On a CPU this is
several times cheaper than one call per draw.
"""

import abc
import dataclasses
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from ...checks import check_not_negative


def below(
    bits: UInt32[Array, "*shape"], bound: int | UInt32[Array, ""]
) -> UInt32[Array, "*shape"]:
    r"""Uniform integers in $[0, \text{bound})$ from uniform 32-bit words.

    It is $\lfloor \text{bits} \cdot \text{bound} / 2^{32} \rfloor$, so the probability
    of each integer is off by less than $2^{-32}$.

    **Arguments:**

    - `bits`: Independent uniform words.
    - `bound`: The number of integers, from 1 to $2^{32} - 1$.
    """
    bound = jnp.asarray(np.uint32(bound) if isinstance(bound, int) else bound)
    # The high word of a 64-bit product, in 32-bit arithmetic.
    half = np.uint32(0xFFFF)
    high, low = bits >> 16, bits & half
    bound_high, bound_low = bound >> 16, bound & half
    middle = high * bound_low + ((low * bound_low) >> 16)
    carry = (low * bound_high + (middle & half)) >> 16
    return high * bound_high + (middle >> 16) + carry


def permutation(bits: UInt32[Array, " n"]) -> Int32[Array, " n"]:
    r"""A uniform permutation of range(n): the rank of each word among the words.

    Takes $n^2$ comparisons. For a short context, this is faster than sorting.
    """
    index = np.arange(bits.shape[0])
    first = index[None, :] < index[:, None]
    less = bits[None, :] < bits[:, None]
    # Equal words (one pair in 2^32) keep their order, so it is still a permutation.
    before = less | ((bits[None, :] == bits[:, None]) & first)
    return jnp.sum(before, axis=1, dtype=jnp.int32)


def edges(probabilities: np.ndarray) -> np.ndarray:
    r"""Divides the 32-bit integers between outcomes.

    Outcome $k$ owns the integers from `edges[k]` up to `edges[k + 1]`. It owns at least
    one, and its share equals $p_k$ to within about $2^{-32}$.

    **Arguments:**

    - `probabilities`: float64 [outcome], positive, summing to 1.

    **Returns:**

    uint32 [outcome + 1], starting at 0.
    """
    widths = 1 + np.floor(probabilities * (2**32 - 1 - len(probabilities)))
    return np.concatenate([[0], np.cumsum(widths)]).astype(np.uint32)


class AbstractClassSampler(eqx.Module):
    """Draws classes: each class owns an interval of the integers below a total."""

    @abc.abstractmethod
    def total(self) -> UInt32[Array, ""]:
        """The number of integers that all classes own together."""

    @abc.abstractmethod
    def interval(
        self, classes: Int32[Array, " excluded"]
    ) -> tuple[UInt32[Array, " excluded"], UInt32[Array, " excluded"]]:
        """The first integer that each class owns, and how many it owns."""

    @abc.abstractmethod
    def owner(self, place: UInt32[Array, ""]) -> Int32[Array, ""]:
        """The class that owns the integer `place`."""

    def draw(
        self,
        bits: UInt32[Array, ""],
        excluded: Int32[Array, " excluded"],
        active: Bool[Array, " excluded"],
    ) -> Int32[Array, ""]:
        r"""Draws a class from the distribution conditioned on not being excluded.

        Draws an integer below the number that the other classes own together. Then
        steps over each excluded interval that lies at or before it. This needs no
        renormalised distribution. The cost is the square of the number of excluded
        classes, plus finding the owner.

        **Arguments:**

        - `bits`: A uniform word.
        - `excluded`: Classes to leave out. The active ones are all different, and there
            is at least one class besides them.
        - `active`: Which entries of `excluded` count.
        """
        start, width = self.interval(excluded)
        width = jnp.where(active, width, np.uint32(0))
        place = below(bits, self.total() - jnp.sum(width, dtype=jnp.uint32))
        earlier = start[None, :] < start[:, None]
        before = jnp.sum(
            jnp.where(earlier, width[None, :], np.uint32(0)), 1, jnp.uint32
        )
        stepped = jnp.where(start - before <= place, width, np.uint32(0))
        return self.owner(place + jnp.sum(stepped, dtype=jnp.uint32))


class _EvenSampler(AbstractClassSampler):
    """Each class owns one integer."""

    num_classes: int = eqx.field(static=True)

    def total(self):
        return jnp.uint32(self.num_classes)

    def interval(self, classes):
        return classes.astype(jnp.uint32), jnp.ones(classes.shape, jnp.uint32)

    def owner(self, place):
        return place.astype(jnp.int32)


class _WeightedSampler(AbstractClassSampler):
    """Class `k` owns the integers from `edges[k]` up to `edges[k + 1]`."""

    edges: UInt32[Array, " edge"]

    def total(self):
        return self.edges[-1]

    def interval(self, classes):
        start = self.edges[classes]
        return start, self.edges[classes + 1] - start

    def owner(self, place):
        found = jnp.searchsorted(self.edges, place, side="right")
        return found.astype(jnp.int32) - 1


@dataclasses.dataclass(frozen=True)
class UniformClasses:
    """All classes of the split are equally likely."""

    FORMERLY: ClassVar[str] = "Uniform"

    def build(self, num_classes: int) -> AbstractClassSampler:
        """The sampler of `num_classes` classes."""
        return _EvenSampler(num_classes)


@dataclasses.dataclass(frozen=True)
class Zipf:
    r"""A power law: $p_k \propto (k + 1)^{-\alpha}$.

    The rank $k$ of a class is its position in the split. Probabilities are multiples
    of $2^{-32}$, and none is zero.
    """

    alpha: float
    """The exponent, at least 0; 0 gives the uniform distribution. Natural language is
    near 1 (Chan et al., 2022)."""

    def __post_init__(self):
        check_not_negative("alpha", self.alpha)

    def build(self, num_classes: int) -> AbstractClassSampler:
        """The sampler of `num_classes` classes; its table is computed in float64."""
        weights = np.arange(1, num_classes + 1, dtype=np.float64) ** -self.alpha
        return _WeightedSampler(jnp.asarray(edges(weights / weights.sum())))


Distribution = UniformClasses | Zipf
