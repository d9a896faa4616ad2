"""FAVOR+, the attention of Performers (Choromanski et al. 2021, arXiv 2009.14794)."""

import dataclasses
import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ...checks import check_scale, positive
from ...protocols import AttentionConfig, Untrained
from ._kernels import AbstractKernelAttention, Features, Kernel
from ._kind import AbstractAttention


# A token's largest feature is made the exponential of this number, and none is smaller
# than that of the other. Then products are neither too large nor zero in float32.
_HIGHEST, _LOWEST = 30.0, -70.0


class _Favor(AbstractKernelAttention):
    directions: Untrained
    scale: float = eqx.field(static=True)

    name: ClassVar = "FavorAttention"
    rows: ClassVar = "distribution"
    kernel: ClassVar = Kernel()

    def queries(self, q):
        return self._features(q)

    def keys(self, k):
        return self._features(k)

    def _features(self, x: Float[Array, "seq head d_head"]) -> Features:
        logs = log_features(self.scale**0.5 * x, self.directions.value)
        highest = jax.lax.stop_gradient(logs.max(-1, keepdims=True))
        values = jnp.exp(jnp.maximum(logs - highest + _HIGHEST, _LOWEST))
        return Features(values, highest[..., 0])


@dataclasses.dataclass(frozen=True)
class FavorAttention(AttentionConfig):
    r"""An estimate of softmax attention by positive random features (FAVOR+).

    Weights are proportional to $\phi(q) \cdot \phi(k)$ with $\phi(x) = \exp(\omega^\top
    x' - |x'|^2 / 2)$ and $x' = \sqrt{s}\, x$. The expectation of the products is that
    of a softmax of $s\, q \cdot k$. `scale` is $s$; the default is $1 /
    \sqrt{d_\text{head}}$. The heads of a layer share the directions $\omega$, which are
    orthogonal and never trained.

    Every number depends only on keys that the query sees: features are divided by the
    largest one of the same token, and their factors by the largest factor so far. Of a
    token's features, those below $e^{-100}$ times the largest count as that much. The
    kernel is recorded up to a factor for each query.
    """

    num_features: int | None = None
    r"""Number of directions; `None` is $d_\text{head} \ln d_\text{head}$, rounded
    down, and at least 1."""

    def __post_init__(self):
        check_count(self.num_features)

    def build(
        self, num_heads: int, d_head: int, *, scale: float | None, key: PRNGKeyArray
    ) -> AbstractAttention:
        if scale is not None:
            check_scale("scale of FavorAttention", scale)
        count = self.num_features or max(1, int(d_head * math.log(d_head)))
        directions = Untrained(orthogonal(d_head, count, key=key))
        return _Favor(directions, d_head**-0.5 if scale is None else scale)


def check_count(num_features: int | None) -> None:
    """Raises `ValueError` unless there are some features, or `None`."""
    if num_features is not None:
        positive("num_features", num_features)


def log_features(
    x: Float[Array, "seq head d_head"], directions: Float[Array, "d_head feature"]
) -> Float[Array, "seq head feature"]:
    r"""$\omega^\top x - |x|^2 / 2$ for each direction $\omega$."""
    return x @ directions - 0.5 * jnp.sum(x**2, -1, keepdims=True)


def orthogonal(
    d_head: int, count: int, *, key: PRNGKeyArray
) -> Float[Array, "d_head feature"]:
    """Directions with the lengths of normal vectors; each `d_head` are orthogonal.

    Each by itself has the distribution of a normal vector (Choromanski et al. 2021,
    section 2.4).
    """
    angle_key, length_key = jax.random.split(key)
    blocks = -(-count // d_head)
    q, r = jnp.linalg.qr(jax.random.normal(angle_key, (blocks, d_head, d_head)))
    # Without this, QR prefers some directions.
    q = q * jnp.sign(jnp.diagonal(r, axis1=-2, axis2=-1))[:, None]
    units = jnp.moveaxis(q, 0, 1).reshape(d_head, -1)[:, :count]
    return units * jnp.linalg.norm(
        jax.random.normal(length_key, (d_head, count)), axis=0
    )
