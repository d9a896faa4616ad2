"""The variant of FAVOR+ in the public code `limits_of_icl`."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ...protocols import AttentionConfig, Untrained
from ._kernels import AbstractKernelAttention, Features, Kernel
from ._kind import AbstractAttention
from .favor import check_count, log_features


class _UnstabilisedFavor(AbstractKernelAttention):
    directions: Untrained

    name: ClassVar = "UnstabilisedFavorAttention"
    rows: ClassVar = "non-negative"
    kernel: ClassVar = Kernel(epsilon=1e-6)

    def queries(self, q):
        d_head, count = self.directions.value.shape
        logs = log_features(d_head**-0.5 * q, self.directions.value)
        return Features(jnp.exp(logs) * count**-0.5)

    def keys(self, k):
        return self.queries(k)


@dataclasses.dataclass(frozen=True)
class UnstabilisedFavorAttention(AttentionConfig):
    r"""Random features as the public code `limits_of_icl` has them.

    Unlike `FavorAttention`, queries and keys are each divided by
    $\sqrt{d_\text{head}}$, so the products estimate $\exp(q \cdot k / d_\text{head})$;
    directions are independent; nothing keeps features from becoming zero or infinite,
    which they do in float32 if entries of queries and keys reach 6 or so; each sum of
    weights has 1e-6 added, so rows sum to less than 1.
    """

    num_features: int | None = None
    r"""Number of directions; `None` is $2 d_\text{head}$."""

    def __post_init__(self):
        check_count(self.num_features)

    def build(
        self, num_heads: int, d_head: int, *, scale: float | None, key: PRNGKeyArray
    ) -> AbstractAttention:
        if scale is not None:
            name = type(self).__name__
            raise ValueError(f"scale: {name} has its own, got {scale}")
        shape = d_head, self.num_features or 2 * d_head
        return _UnstabilisedFavor(Untrained(jax.random.normal(key, shape)))
