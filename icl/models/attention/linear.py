"""Linear attention (Katharopoulos et al. 2020, "Transformers are RNNs")."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from opto import Tap

from ...protocols import AttentionConfig
from ._kind import AbstractAttention
from ._products import faster


# For up to this many (query, key) pairs, computing all weights at once is faster on a
# CPU than the running sum, with gradients; measured in benchmarks/choices.py.
_AT_ONCE_PAIRS = 2048


class _Linear(AbstractAttention):
    name: ClassVar = "LinearAttention"
    before: ClassVar = "kernel"
    rows: ClassVar = "distribution"
    bilinear: ClassVar = False

    def __call__(self, q, k, v, seen, *, tap):
        few = seen.size <= _AT_ONCE_PAIRS
        at_once = self.asked(tap) or few or not AsScan.fits(seen)
        form = AsPattern(self, tap) if at_once else AsScan()
        return form(features(q), features(k), v, seen)


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


@dataclasses.dataclass(frozen=True)
class AsPattern:
    """All weights at once: takes quadratic time, and the weights have sites."""

    kind: AbstractAttention
    tap: Tap

    def __call__(
        self,
        q: Float[Array, "seq head d_head"],
        k: Float[Array, "kv_seq head d_head"],
        v: Float[Array, "kv_seq head d_head"],
        seen: Bool[np.ndarray, "seq kv_seq"],
    ) -> Float[Array, "seq head d_head"]:
        form = faster(len(q), len(k))
        kernel = form.scores(q, k)
        if not seen.all():
            kernel = jnp.where(jnp.expand_dims(seen, form.head), kernel, 0)
        kernel = self.kind.name_before(self.tap, kernel, form.head, seen=seen)
        pattern = kernel / jnp.sum(kernel, form.key, keepdims=True)
        pattern = self.kind.name_pattern(self.tap, pattern, form.head, seen=seen)
        return form.mixed(pattern, v)


class AsScan:
    """A running sum over keys: takes linear time, if queries see the first keys.

    Either all queries see the same keys, or each sees one more than the one before it.
    """

    @staticmethod
    def fits(seen: Bool[np.ndarray, "seq kv_seq"]) -> bool:
        """Whether the queries see keys in this way."""
        counts = seen.sum(1)
        first = np.arange(seen.shape[1]) < counts[:, None]
        steps = np.diff(counts)
        even = (steps == 0).all() or (steps == 1).all()
        return bool((seen == first).all() and even)

    def __call__(
        self,
        q: Float[Array, "seq head d_head"],
        k: Float[Array, "kv_seq head d_head"],
        v: Float[Array, "kv_seq head d_head"],
        seen: Bool[np.ndarray, "seq kv_seq"],
    ) -> Float[Array, "seq head d_head"]:
        # An extra value of 1 sums up the weights.
        v = jnp.concatenate([v, jnp.ones_like(v[..., :1])], -1)
        first, last = seen[0].sum(), seen[-1].sum()
        total = jnp.einsum("khd,khe->hde", k[:first], v[:first])
        if first == last:
            sums = jnp.einsum("qhd,hde->qhe", q, total)
            return sums[..., :-1] / sums[..., -1:]

        def step(total, one):
            query, key, value = one
            total = total + key[:, :, None] * value[:, None]
            return total, jnp.einsum("hd,hde->he", query, total)

        start = jnp.einsum("hd,hde->he", q[0], total)
        _, others = jax.lax.scan(step, total, (q[1:], k[first:last], v[first:last]))
        sums = jnp.concatenate([start[None], others])
        return sums[..., :-1] / sums[..., -1:]
