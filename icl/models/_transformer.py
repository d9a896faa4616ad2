"""A pre-norm transformer block."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from opto import identity, Tap

from ._attention import Attention
from ._init import per_token
from ._mlp import MLP
from ._positions import AbstractPositions


class Block(eqx.Module):
    """Attention and, if there is one, an MLP, each added to the residual stream.

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
        """The residual stream after this block, of the tokens from `start` on."""
        attn_tap, mlp_tap = tap.scope("attn"), tap.scope("mlp")
        x = tap("resid_pre", x, "seq d_model")
        normed = attn_tap("normed", per_token(self.attn_norm, x), "seq d_model")
        x = x[start:] + self.attn(normed, positions, start=start, tap=attn_tap)
        x = tap("resid_mid", x, "seq d_model")
        if self.mlp is not None and self.mlp_norm is not None:
            normed = mlp_tap("normed", per_token(self.mlp_norm, x), "seq d_model")
            x = x + self.mlp(normed, tap=mlp_tap)
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
    causal: bool,
    qkv_bias: bool,
    scale: float | None,
    init_scale: float,
    key: PRNGKeyArray,
) -> Block:
    """A freshly initialised block; the arguments as in `TransformerConfig`."""
    attn_key, mlp_key = jax.random.split(key)
    attn = Attention(
        d_model,
        num_heads,
        causal=causal,
        qkv_bias=qkv_bias,
        scale=scale,
        init_scale=init_scale,
        key=attn_key,
    )
    if mlp_ratio is None:
        return Block(norm(d_model, layer_norm), attn, None, None)
    mlp = MLP(d_model, int(mlp_ratio * d_model), init_scale=init_scale, key=mlp_key)
    return Block(norm(d_model, layer_norm), attn, norm(d_model, layer_norm), mlp)
