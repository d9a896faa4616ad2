"""Products of queries and keys whose entries sum to one."""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ...protocols import AttentionConfig
from ._kind import AbstractAttention
from ._products import faster


class _SumNormalised(AbstractAttention):
    scale: float = eqx.field(static=True)

    name: ClassVar = "SumNormalisedAttention"
    before: ClassVar = "kernel"
    rows: ClassVar = "signed"
    bilinear: ClassVar = False

    def __call__(self, q, k, v, seen, *, tap):
        form = faster(q, k)
        q, k = (x / (x.sum(-1, keepdims=True) + 1e-6) for x in (q, k))
        kernel = self.scale * form.scores(q, k)
        kernel = jnp.where(jnp.expand_dims(seen, form.head), kernel, 0)
        kernel = self.name_before(tap, kernel, form.head)
        pattern = self.name_pattern(tap, kernel, form.head)
        return form.mixed(pattern, v)


@dataclasses.dataclass(frozen=True)
class SumNormalisedAttention(AttentionConfig):
    """Weights are products of queries and keys, each divided by the sum of its entries.

    A variant in the public code of von Oswald et al. (2023). The sums may be near 0, so
    weights may be large. The default scale is 1.
    """

    def build(
        self, num_heads: int, d_head: int, *, scale: float | None, key: PRNGKeyArray
    ) -> AbstractAttention:
        return _SumNormalised(1.0 if scale is None else scale)
