"""A post-norm transformer block."""

import equinox as eqx
from jaxtyping import Array, Float

from opto import identity, Tap

from ._layers import per_token
from ._mlp import MLP
from ._positions import AbstractPositions
from .attention import Attention


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
        out = self.attn(x, positions, start=start, tap=tap.scope("attn"))
        x = per_token(self.attn_norm, x[start:] + out)
        x = tap("resid_mid", x, "seq d_model")
        x = per_token(self.mlp_norm, x + self.mlp(x, tap=tap.scope("mlp")))
        return tap("resid_post", x, "seq d_model")
