"""A learned mix of softmax attention and plain products (von Oswald et al. 2023)."""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ...protocols import AttentionConfig
from ._kind import AbstractAttention
from ._products import faster
from .softmax import masked


class _Mixed(AbstractAttention):
    mix: Float[Array, ""]
    scale: float = eqx.field(static=True)

    name: ClassVar = "MixedAttention"
    before: ClassVar = "kernel"
    rows: ClassVar = "signed"
    bilinear: ClassVar = False

    def __call__(self, q, k, v, seen, *, tap):
        form = faster(q, k)
        visible = jnp.expand_dims(seen, form.head)
        products = form.scores(q, k)
        scores = jnp.where(visible, self.scale * products, masked(products.dtype))
        share = jax.nn.sigmoid(10 * self.mix)
        mixed = share * jax.nn.softmax(scores, form.key) + (1 - share) * products
        kernel = jnp.where(visible, mixed, 0)
        kernel = self.name_before(tap, kernel, form.head)
        pattern = self.name_pattern(tap, kernel, form.head)
        return form.mixed(pattern, v)


@dataclasses.dataclass(frozen=True)
class MixedAttention(AttentionConfig):
    r"""Weights are $g$ times those of a softmax plus $1 - g$ times plain products.

    $g$ is the logistic function of ten times a learned number, which starts at 0.
    `scale` is the factor in the softmax; the default is $1 / \sqrt{d_\text{head}}$.
    """

    def build(
        self, num_heads: int, d_head: int, *, scale: float | None, key: PRNGKeyArray
    ) -> AbstractAttention:
        return _Mixed(jnp.zeros(()), d_head**-0.5 if scale is None else scale)
