"""Transformer blocks, with norms before or after their parts."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from opto import identity, Tap

from ..protocols import AttentionConfig, Mask
from ._layers import per_token
from ._mlp import MLP
from ._positions import AbstractPositions
from .attention import Attention, Reads


class TransformerBlock(eqx.Module):
    """Attention and, optionally, an MLP, each added to the residual stream.

    `attn_norm` and `mlp_norm` are LayerNorms or identities.
    """

    attn_norm: eqx.Module
    attn: Attention
    mlp_norm: eqx.Module | None
    mlp: MLP | None

    def __call__(
        self,
        x: Float[Array, "seq d_model"],
        positions: AbstractPositions,
        *,
        start: int = 0,
        tap: Tap = identity,
    ) -> Float[Array, "query_seq d_model"]:
        """The residual stream after this block, for the tokens from `start` on."""
        attn_tap = tap.scope("attn")
        x = tap("resid_pre", x, "seq d_model")
        normed = per_token(self.attn_norm, x, attn_tap)
        normed = attn_tap("normed", normed, "seq d_model")
        reads = self._reads(x, attn_tap)
        out = self.attn(normed, positions, reads=reads, start=start, tap=attn_tap)
        return self.after_attention(x[start:] + out, tap)

    def after_attention(
        self, x: Float[Array, "seq d_model"], tap: Tap
    ) -> Float[Array, "seq d_model"]:
        """The rest of the block, from the residual stream after its attention."""
        mlp_tap = tap.scope("mlp")
        x = tap("resid_mid", x, "seq d_model")
        if self.mlp is not None and self.mlp_norm is not None:
            mlp_in = mlp_tap("in", x, "seq d_model")
            normed = per_token(self.mlp_norm, mlp_in, mlp_tap)
            normed = mlp_tap("normed", normed, "seq d_model")
            x = x + self.mlp(normed, tap=mlp_tap)
        return tap("resid_post", x, "seq d_model")

    def _reads(self, x: Float[Array, "seq d_model"], tap: Tap) -> Reads:
        """What each head reads instead of `x`, if someone edits it."""
        reads: Reads = {}
        norm = jax.vmap(lambda read: per_token(self.attn_norm, read))
        for name in ("q_in", "k_in", "v_in"):
            if tap.wants(name):
                shared = name != "q_in" and self.attn.kv_axis == "kv_head"
                heads = self.attn.num_kv_heads if shared else self.attn.num_heads
                whole = jnp.broadcast_to(x, (heads, *x.shape))
                axis = "kv_head" if shared else "head"
                read = tap(name, whole, f"{axis} seq d_model")
                if read is not whole:  # If only recorded, all heads read the same `x`.
                    reads[name] = norm(read), norm(whole)
        return reads


class PostNormBlock(eqx.Module):
    """Attention and an MLP, each added to its input and then normalised.

    As in Vaswani et al. (2017). `resid_mid` and `resid_post` are normalised.
    """

    attn: Attention
    attn_norm: eqx.nn.LayerNorm
    mlp: MLP
    mlp_norm: eqx.nn.LayerNorm

    def __call__(
        self,
        x: Float[Array, "seq d_model"],
        positions: AbstractPositions,
        *,
        start: int = 0,
        tap: Tap = identity,
    ) -> Float[Array, "query_seq d_model"]:
        """The residual stream after this block, for the tokens from `start` on."""
        x = tap("resid_pre", x, "seq d_model")
        attn_tap, mlp_tap = tap.scope("attn"), tap.scope("mlp")
        out = self.attn(x, positions, start=start, tap=attn_tap)
        x = per_token(self.attn_norm, x[start:] + out, attn_tap)
        x = tap("resid_mid", x, "seq d_model")
        x = per_token(self.mlp_norm, x + self.mlp(x, tap=mlp_tap), mlp_tap)
        return tap("resid_post", x, "seq d_model")


def norm(d_model: int, layer_norm: bool) -> eqx.Module:
    """A LayerNorm (epsilon 1e-5, with scale and offset), or the identity."""
    return eqx.nn.LayerNorm(d_model) if layer_norm else eqx.nn.Identity()


def block(
    d_model: int,
    num_heads: int,
    *,
    mlp_ratio: float | None,
    layer_norm: bool,
    attention: AttentionConfig,
    mask: Mask,
    init_scale: float,
    key: PRNGKeyArray,
    num_kv_heads: int | None = None,
    qkv_bias: bool = False,
    scale: float | None = None,
) -> TransformerBlock:
    """A freshly initialised block; arguments as in `TransformerConfig`."""
    attn_key, mlp_key = jax.random.split(key)
    attn = Attention(
        d_model,
        num_heads,
        kind=attention,
        num_kv_heads=num_kv_heads,
        mask=mask,
        qkv_bias=qkv_bias,
        scale=scale,
        init_scale=init_scale,
        key=attn_key,
    )
    if mlp_ratio is None:
        return TransformerBlock(norm(d_model, layer_norm), attn, None, None)
    mlp = MLP(d_model, int(mlp_ratio * d_model), init_scale=init_scale, key=mlp_key)
    return TransformerBlock(
        norm(d_model, layer_norm), attn, norm(d_model, layer_norm), mlp
    )
