"""ReBased attention (Aksenov et al. 2024, arXiv 2402.10644)."""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ...protocols import AttentionConfig
from ._kernels import AbstractKernelAttention, Features, Kernel
from ._kind import AbstractAttention


# In the norm of queries and keys, and in the sum of weights.
EPSILON = 1e-6


class _Rebased(AbstractKernelAttention):
    gain: Float[Array, "head d_head"]
    offset: Float[Array, "head d_head"]
    scale: float = eqx.field(static=True)

    name: ClassVar = "RebasedAttention"
    rows: ClassVar = "non-negative"
    kernel: ClassVar = Kernel(power=2, epsilon=EPSILON)

    def queries(self, q):
        return Features(self.scale * rescaled(q, self.gain, self.offset))

    def keys(self, k):
        return Features(rescaled(k, self.gain, self.offset))


@dataclasses.dataclass(frozen=True)
class RebasedAttention(AttentionConfig):
    r"""Weights are proportional to squares: $(q' \cdot k')^2 / d_\text{head}$.

    Each head normalises its queries and its keys over `d_head`, and then has a learned
    gain and offset, the same for both: $x' = \gamma \odot \mathrm{LN}(x) + \beta$. The
    features are all products of two entries of $x'$. Each sum of weights has 1e-6
    added, so rows sum to a little less than 1.
    """

    def build(
        self, num_heads: int, d_head: int, *, scale: float | None, key: PRNGKeyArray
    ) -> AbstractAttention:
        if scale is not None:
            why = "its weights are divided by their sum, so a scale changes nothing"
            raise ValueError(f"scale: RebasedAttention has none, as {why}; got {scale}")
        return _Rebased(*gain_and_offset(num_heads, d_head), d_head**-0.5)


def gain_and_offset(num_heads: int, d_head: int) -> tuple[Array, Array]:
    """The initial gain, ones, and offset, zeros: `[head, d_head]` each."""
    shape = num_heads, d_head
    return jnp.ones(shape), jnp.zeros(shape)


def rescaled(
    x: Float[Array, "seq head d_head"],
    gain: Float[Array, "head d_head"],
    offset: Float[Array, "head d_head"],
) -> Float[Array, "seq head d_head"]:
    """Normalised over `d_head`, times the gain, plus the offset."""
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return gain * (centred * jax.lax.rsqrt(variance + EPSILON)) + offset
