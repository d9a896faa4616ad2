"""Linear attention (Katharopoulos et al. 2020, "Transformers are RNNs")."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ...protocols import AttentionConfig
from ._kernels import AbstractKernelAttention, Features, Kernel
from ._kind import AbstractAttention


# No feature of a token is below the exponential of this, relative to its largest. Then
# the products of a query with a key are not all zero in float32.
_LOWEST = -40.0


class _Linear(AbstractKernelAttention):
    name: ClassVar = "LinearAttention"
    rows: ClassVar = "distribution"
    kernel: ClassVar = Kernel()

    def queries(self, q):
        return _features(q)

    def keys(self, k):
        return _features(k)


def _features(x: Float[Array, "seq head d_head"]) -> Features:
    """`elu(x) + 1`, divided by the largest of a token if that is below 1.

    Otherwise, all of them may be too small for a float, and weights would be 0 ÷ 0.
    """
    log = jax.lax.stop_gradient(jnp.minimum(x.max(-1), 0))
    # Not written as elu(x) + 1: elu subtracts one, so small values lose their digits.
    # No maximum at 0: the largest entry is there, and would have half of its gradient.
    exponents = jnp.maximum(jnp.where(x > 0, 0, x - log[..., None]), _LOWEST)
    return Features(jnp.where(x > 0, x + 1, jnp.exp(exponents)), log)


@dataclasses.dataclass(frozen=True)
class LinearAttention(AttentionConfig):
    r"""Weights are proportional to the products of `elu + 1` of queries and keys.

    The time is proportional to the length of a sequence, unless someone asks for
    weights.

    Of a token's features, those below $e^{-40}$, or below $e^{-40}$ times the largest
    if that is below 1, count as that much. The kernel is recorded up to a factor for
    each query.
    """

    def build(
        self, num_heads: int, d_head: int, *, scale: float | None, key: PRNGKeyArray
    ) -> AbstractAttention:
        if scale is not None:
            raise ValueError(f"scale: LinearAttention has no scores, got {scale}")
        return _Linear()
