"""Faster forms of attention that no one looks into: weights or tokens first."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from opto import Tap

from ._layers import per_token
from ._positions import AbstractPositions
from .attention import AbstractMixingAttention, Attention
from .attention.product import product_scale


# The sites between what attention reads and what it gives.
_INSIDE = (
    *("q_pre", "k_pre", "q", "k", "v", "seen", "scores"),
    *("kernel", "pattern", "z", "result"),
)


def attended(
    attn: Attention,
    x: Float[Array, "seq d_model"],
    positions: AbstractPositions,
    *,
    start: int,
    tap: Tap,
) -> Float[Array, "query_seq d_model"]:
    """`attn(x, positions, start=start, tap=tap)`, up to rounding.

    It takes a faster form if there is one and no one asks for a site inside.
    """
    if not tap.wants(*_INSIDE) and _is_plain(attn, x, positions):
        # With more queries, their own sums would cost more than keys and values.
        few = 2 * (len(x) - start) <= attn.mask.keys(len(x))
        if few and product_scale(attn.kind) is not None:
            return tap("out", _tokens_first(attn, x, start), "seq d_model")
        if _has_wide_head(attn):
            return tap("out", _weights_first(attn, x, start, tap), "seq d_model")
    return attn(x, positions, start=start, tap=tap)


def _tokens_first(
    attn: Attention, x: Float[Array, "seq d_model"], start: int
) -> Float[Array, "query_seq d_model"]:
    r"""$P W_V \sum_i x_i\, (x_i \cdot W_K^\top q)$ if weights are plain products.

    Keys and values are not needed.
    """
    keys = x[: attn.mask.keys(len(x))]
    query = per_token(attn.query, x[start:]).reshape(len(x) - start, attn.num_heads, -1)
    w_k, w_v = (
        layer.weight.reshape(attn.num_heads, -1, x.shape[1])
        for layer in (attn.key, attn.value)
    )
    scale = product_scale(attn.kind) or 1.0
    asked = scale * jnp.einsum("qhe,hed->qhd", query, w_k)
    kernel = jnp.einsum("qhd,kd->qhk", asked, keys)
    seen = attn.mask.seen(len(x), start)
    if not seen.all():
        kernel = jnp.where(seen[:, None], kernel, 0)
    gathered = jnp.einsum("qhk,kd->qhd", kernel, keys)
    z = jnp.einsum("qhd,hed->qhe", gathered, w_v)
    return per_token(attn.output, z.reshape(len(z), -1))


def _weights_first(
    attn: Attention, x: Float[Array, "seq d_model"], start: int, tap: Tap
) -> Float[Array, "query_seq d_model"]:
    r"""One head with $W_Q^\top W_K$ and $P W_V$ in place of four matrices.

    A batch shares these products, so each token goes through two matrices, not four.
    """
    keys = x[: attn.mask.keys(len(x)), None]
    asked = x[start:] @ (attn.query.weight.T @ attn.key.weight)
    seen = attn.mask.seen(len(x), start)
    gathered = attn.kind(asked[:, None], keys, keys, seen, tap=tap)[:, 0]
    return gathered @ (attn.output.weight @ attn.value.weight).T


def _is_plain(
    attn: Attention, x: Float[Array, "seq d_model"], positions: AbstractPositions
) -> bool:
    """Whether queries, keys and values are products of tokens with matrices."""
    layers = attn.query, attn.key, attn.value
    return (
        attn.kv_axis == "head"
        and all(layer.bias is None for layer in layers)
        and _rotates_nothing(positions, x[:, None])
    )


def _has_wide_head(attn: Attention) -> bool:
    """Whether there is one head, as wide as the stream, and all it does is linear."""
    width, d_model = attn.query.weight.shape
    return (
        attn.num_heads == 1
        and width >= d_model
        and attn.output.bias is None
        and attn.kind.bilinear
        and not isinstance(attn.kind, AbstractMixingAttention)
    )


def _rotates_nothing(positions: AbstractPositions, x: Array) -> bool:
    return positions.rotate(x, 0) is x
