"""Two ways to multiply queries by keys and weights by values, and which is faster."""

import jax.numpy as jnp
from jaxtyping import Array, Float


# For up to this many (query, key) pairs of narrow heads, XLA's CPU backend is faster at
# sums of products than at small batched matrix products; measured in
# benchmarks/choices.py. With 9 tokens and heads of width 32, products take a third of
# the time.
_ELEMENTWISE_PAIRS, _ELEMENTWISE_WIDTH = 300, 8


class Sums:
    """Sums of products; weights are `[seq, kv_seq, head]`, without a transposition."""

    head, key = 2, 1

    def scores(
        self,
        q: Float[Array, "seq head d_head"],
        k: Float[Array, "kv_seq head d_head"],
    ) -> Float[Array, "seq kv_seq head"]:
        return jnp.sum(q[:, None] * k, -1)

    def mixed(
        self,
        pattern: Float[Array, "seq kv_seq head"],
        v: Float[Array, "kv_seq head d_head"],
    ) -> Float[Array, "seq head d_head"]:
        return jnp.sum(pattern[..., None] * v, 1)


class Products:
    """Matrix products for each head; weights are `[head, seq, kv_seq]`."""

    head, key = 0, 2

    def scores(
        self,
        q: Float[Array, "seq head d_head"],
        k: Float[Array, "kv_seq head d_head"],
    ) -> Float[Array, "head seq kv_seq"]:
        return jnp.einsum("qhd,khd->hqk", q, k)

    def mixed(
        self,
        pattern: Float[Array, "head seq kv_seq"],
        v: Float[Array, "kv_seq head d_head"],
    ) -> Float[Array, "seq head d_head"]:
        # Written as a product of matrices: a sum of indices takes longer on a CPU.
        return (pattern @ v.transpose(1, 0, 2)).transpose(1, 0, 2)


def faster(
    q: Float[Array, "seq head width"], k: Float[Array, "kv_seq head width"]
) -> Sums | Products:
    """The faster form for queries and keys, or their features, of these sizes."""
    few = len(q) * len(k) <= _ELEMENTWISE_PAIRS
    return Sums() if few and q.shape[-1] <= _ELEMENTWISE_WIDTH else Products()
