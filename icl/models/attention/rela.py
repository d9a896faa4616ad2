"""Rectified linear attention, ReLA (Zhang et al. 2021, arXiv 2104.07012)."""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ...protocols import AttentionConfig
from ._kind import AbstractAttention, AbstractMixingAttention, sees_all
from ._products import faster


class _Rela(AbstractMixingAttention):
    gain: Float[Array, "head d_head"]
    gate: Float[Array, "head d_head"]
    scale: float = eqx.field(static=True)

    name: ClassVar = "RelaAttention"
    before: ClassVar = "kernel"
    rows: ClassVar = "non-negative"
    bilinear: ClassVar = True

    def __call__(self, q, k, v, seen, *, tap):
        form = faster(q, k)
        kernel = self.scale * form.scores(q, k)
        if not sees_all(seen):
            kernel = jnp.where(jnp.expand_dims(seen, form.head), kernel, 0)
        kernel = self.name_before(tap, kernel, form.head)
        pattern = jax.nn.relu(kernel)
        pattern = self.name_pattern(tap, pattern, form.head)
        return form.mixed(pattern, v)

    def mix(self, z):
        power = (z**2).mean((-2, -1), keepdims=True)
        gate = jax.nn.sigmoid(self.gate * z)
        return z * jax.lax.rsqrt(power + 1e-8) * self.gain * gate


@dataclasses.dataclass(frozen=True)
class RelaAttention(AttentionConfig):
    r"""Weights are the positive parts of `scale` times products; no row is normalised.

    A token may attend to nothing. What all heads gather, $z$, is normalised together,
    with a learned gain $g$ and gate $w$: $z \odot g \odot \sigma(w \odot z) /
    \sqrt{\overline{z^2} + 10^{-8}}$. So what a head writes depends on the other heads.
    The default scale is $1 / \sqrt{d_\text{head}}$.
    """

    def build(
        self, num_heads: int, d_head: int, *, scale: float | None, key: PRNGKeyArray
    ) -> AbstractAttention:
        shape = num_heads, d_head
        factor = d_head**-0.5 if scale is None else scale
        return _Rela(jnp.ones(shape), jnp.zeros(shape), factor)
