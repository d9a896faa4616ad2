"""Linear attention (Katharopoulos et al. 2020, "Transformers are RNNs")."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ...protocols import AttentionConfig
from ._kernels import AbstractKernelAttention, Features, Kernel
from ._kind import AbstractAttention


class _Linear(AbstractKernelAttention):
    name: ClassVar = "LinearAttention"
    rows: ClassVar = "distribution"
    kernel: ClassVar = Kernel()

    def queries(self, q):
        return Features(features(q))

    def keys(self, k):
        return Features(features(k))


@dataclasses.dataclass(frozen=True)
class LinearAttention(AttentionConfig):
    """Weights are proportional to the products of `elu + 1` of queries and keys.

    The time is proportional to the length of a sequence, unless someone asks for
    weights.
    """

    def build(
        self, num_heads: int, d_head: int, *, scale: float | None, key: PRNGKeyArray
    ) -> AbstractAttention:
        if scale is not None:
            raise ValueError(f"scale: LinearAttention has no scores, got {scale}")
        return _Linear()


def features(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """`elu(x) + 1`, which is positive."""
    # Not written as elu(x) + 1: elu subtracts one, so small values lose their digits.
    return jnp.where(x > 0, x + 1, jnp.exp(jnp.minimum(x, 0)))
