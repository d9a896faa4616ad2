"""Attention without a softmax for few queries: sums over tokens come first."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from opto import Tap

from ._layers import per_token
from ._positions import AbstractPositions
from .attention import Attention
from .attention.product import product_scale


# The sites between what attention reads and what it gives.
_INSIDE = ("q_pre", "k_pre", "q", "k", "v", "kernel", "pattern", "z", "result")


def attended(
    attn: Attention,
    x: Float[Array, "seq d_model"],
    positions: AbstractPositions,
    *,
    start: int,
    tap: Tap,
) -> Float[Array, "query_seq d_model"]:
    r"""`attn(x, positions, start=start, tap=tap)`, up to rounding.

    If weights are plain products, and few tokens ask, it computes $P W_V \sum_i x_i\,
    (x_i \cdot W_K^\top q)$: keys and values of the other tokens are not needed. Not so
    if someone asks for a site inside.
    """
    if tap.wants(*_INSIDE) or not _may_sum_first(attn, x, positions, start):
        return attn(x, positions, start=start, tap=tap)
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
    return tap("out", per_token(attn.output, z.reshape(len(z), -1)), "seq d_model")


def _may_sum_first(
    attn: Attention,
    x: Float[Array, "seq d_model"],
    positions: AbstractPositions,
    start: int,
) -> bool:
    layers = attn.query, attn.key, attn.value
    return (
        product_scale(attn.kind) is not None
        and attn.kv_axis == "head"
        and all(layer.bias is None for layer in layers)
        # With more queries, their own sums would cost more than keys and values.
        and 2 * (len(x) - start) <= attn.mask.keys(len(x))
        and _rotates_nothing(positions, x[:, None])
    )


def _rotates_nothing(positions: AbstractPositions, x: Array) -> bool:
    return positions.rotate(x, 0) is x
