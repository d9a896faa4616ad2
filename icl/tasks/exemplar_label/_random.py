"""Random integers and permutations made from words of random bits.

One call of the generator gives all the words that a sequence needs. On a CPU this is
several times cheaper than one call per draw.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt32


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
