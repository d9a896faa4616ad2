"""Softmax attention (Vaswani et al. 2017, "Attention Is All You Need")."""

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ...protocols import AttentionConfig
from ._kind import AbstractAttention, sees_all
from ._products import faster


def masked(dtype: Any) -> float:
    """The scores of unseen keys.

    Finite, because infinities give NaN gradients, and large enough for the softmax to
    give exactly zero.
    """
    return max(-1e20, float(jnp.finfo(dtype).min))


class _Softmax(AbstractAttention):
    scale: float = eqx.field(static=True)

    name: ClassVar = "SoftmaxAttention"
    before: ClassVar = "logits"
    rows: ClassVar = "distribution"
    bilinear: ClassVar = True

    def __call__(self, q, k, v, seen, *, tap):
        form = faster(q, k)
        scores = self.scale * form.scores(q, k)
        if not sees_all(seen):
            unseen = masked(scores.dtype)
            scores = jnp.where(jnp.expand_dims(seen, form.head), scores, unseen)
        scores = self.name_before(tap, scores, form.head)
        pattern = jax.nn.softmax(scores, form.key)
        pattern = self.name_pattern(tap, pattern, form.head)
        return form.mixed(pattern, v)


@dataclasses.dataclass(frozen=True)
class SoftmaxAttention(AttentionConfig):
    """Weights are the softmax of `scale` times the products of queries and keys."""

    def build(
        self, num_heads: int, d_head: int, *, scale: float | None, key: PRNGKeyArray
    ) -> AbstractAttention:
        return _Softmax(d_head**-0.5 if scale is None else scale)
