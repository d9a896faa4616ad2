"""Attention without normalisation: linear self-attention (von Oswald et al. 2023)."""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ...protocols import AttentionConfig
from ._kind import AbstractAttention, sees_all
from ._products import faster


class _Product(AbstractAttention):
    scale: float = eqx.field(static=True)

    name: ClassVar = "ProductAttention"
    before: ClassVar = "kernel"
    rows: ClassVar = "signed"
    bilinear: ClassVar = True

    def __call__(self, q, k, v, seen, *, tap):
        if sees_all(seen) and not self.asked(tap):
            # Sum over keys first: this needs no weights.
            sums = self.scale * jnp.einsum("khd,khe->hde", k, v)
            return jnp.einsum("qhd,hde->qhe", q, sums)
        form = faster(q, k)
        kernel = self.scale * form.scores(q, k)
        if not sees_all(seen):
            kernel = jnp.where(jnp.expand_dims(seen, form.head), kernel, 0)
        kernel = self.name_before(tap, kernel, form.head)
        pattern = self.name_pattern(tap, kernel, form.head)
        return form.mixed(pattern, v)


@dataclasses.dataclass(frozen=True)
class ProductAttention(AttentionConfig):
    """Weights are `scale` times the products of queries and keys, of either sign.

    The default scale is 1.
    """

    def build(
        self, num_heads: int, d_head: int, *, scale: float | None, key: PRNGKeyArray
    ) -> AbstractAttention:
        return _Product(1.0 if scale is None else scale)


def product_scale(kind: AbstractAttention) -> float | None:
    """The factor on the products, if they are the weights of this kind."""
    return kind.scale if isinstance(kind, _Product) else None
