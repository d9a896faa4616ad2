"""Two ways to multiply queries by keys and weights by values, and which is faster."""

import jax.numpy as jnp
from jaxtyping import Array, Float


# For up to this many (query, key) pairs, XLA's CPU backend is faster at sums of
# products than at small batched matrix products; measured in benchmarks/choices.py.
_ELEMENTWISE_PAIRS = 512


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
        return jnp.einsum("hqk,khd->qhd", pattern, v)


def faster(queries: int, keys: int) -> Sums | Products:
    """The faster form for this many queries and keys."""
    return Sums() if queries * keys <= _ELEMENTWISE_PAIRS else Products()
