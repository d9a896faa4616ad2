"""Transformer blocks, with norms before or after their parts."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from opto import identity, Tap

from ..protocols import AttentionConfig, Mask
from ._layers import per_token
from ._mlp import GatedMLP, MLP
from ._positions import AbstractPositions
from .attention import Attention, Reads


class TransformerBlock(eqx.Module):
    """Attention and, optionally, an MLP, each added to the residual stream.

    `attn_norm` and `mlp_norm` are norms or identities.
    """

    attn_norm: eqx.Module
    attn: Attention
    mlp_norm: eqx.Module | None
    mlp: MLP | GatedMLP | None

    def __call__(
        self,
        x: Float[Array, "seq d_model"],
        positions: AbstractPositions,
        *,
        start: int = 0,
        real: Bool[Array, " seq"] | None = None,
        tap: Tap = identity,
    ) -> Float[Array, "query_seq d_model"]:
        """The residual stream after this block, for the tokens from `start` on.

        No token attends to one that is not `real`.
        """
        x = tap("resid_pre", x, "seq d_model")
        given = {"start": start, "real": real, "tap": tap.scope("attn")}
        out = through_attention(self.attn_norm, self.attn, x, positions, **given)
        return self.after_attention(x[start:] + out, tap)

    def after_attention(
        self, x: Float[Array, "seq d_model"], tap: Tap
    ) -> Float[Array, "seq d_model"]:
        """The rest of the block, from the residual stream after its attention."""
        x = tap("resid_mid", x, "seq d_model")
        if self.mlp is not None and self.mlp_norm is not None:
            x = x + through_mlp(self.mlp_norm, self.mlp, x, tap.scope("mlp"))
        return tap("resid_post", x, "seq d_model")


class ParallelBlock(eqx.Module):
    """Attention and an MLP that both read the stream before the block.

    As in GPT-J and GPT-NeoX (Black et al. 2022, arXiv 2204.06745). There is no
    `resid_mid`.
    """

    attn_norm: eqx.Module
    attn: Attention
    mlp_norm: eqx.Module
    mlp: MLP | GatedMLP

    def __call__(
        self,
        x: Float[Array, "seq d_model"],
        positions: AbstractPositions,
        *,
        real: Bool[Array, " seq"] | None = None,
        tap: Tap = identity,
    ) -> Float[Array, "seq d_model"]:
        """The residual stream after this block."""
        x = tap("resid_pre", x, "seq d_model")
        given = {"start": 0, "real": real, "tap": tap.scope("attn")}
        out = through_attention(self.attn_norm, self.attn, x, positions, **given)
        out = out + through_mlp(self.mlp_norm, self.mlp, x, tap.scope("mlp"))
        return tap("resid_post", x + out, "seq d_model")


def through_attention(
    norm: eqx.Module,
    attn: Attention,
    x: Float[Array, "seq d_model"],
    positions: AbstractPositions,
    *,
    start: int,
    real: Bool[Array, " seq"] | None,
    tap: Tap,
) -> Float[Array, "query_seq d_model"]:
    """What attention writes that reads the stream through a norm."""
    scales = _Scale(tap)
    normed = tap("normed", per_token(norm, x, scales), "seq d_model")
    reads = _reads(norm, attn, x, tap, scales)
    return attn(normed, positions, reads=reads, start=start, real=real, tap=tap)


_READS = ("q_in", "k_in", "v_in")


def _reads(
    norm: eqx.Module,
    attn: Attention,
    x: Float[Array, "seq d_model"],
    tap: Tap,
    scales: "_Scale",
) -> Reads:
    """What each head reads instead of `x`, if someone edits it.

    Each is divided by its own scale; if someone edits the scale, by the edited one.
    """
    reads: Reads = {}
    normed = jax.vmap(lambda read: per_token(norm, read, scales.again()))
    for name in _READS:
        if tap.wants(name):
            shared = name != "q_in" and attn.kv_axis == "kv_head"
            heads = attn.num_kv_heads if shared else attn.num_heads
            whole = jnp.broadcast_to(x, (heads, *x.shape))
            axis = "kv_head" if shared else "head"
            read = tap(name, whole, f"{axis} seq d_model")
            if read is not whole:  # If only recorded, all heads read the same `x`.
                reads[name] = normed(read), normed(whole)
    return reads


class _Scale(Tap):
    """Remembers the scale of a norm, if someone edits it."""

    def __init__(self, tap: Tap, held: Array | None = None):
        self._tap, self._held = tap, held
        self._edited: Array | None = None

    def __call__(self, name, value, axes, *, rows=None):
        if self._held is not None:
            return self._held
        new = self._tap(name, value, axes, rows=rows)
        self._edited = None if new is value else new
        return new

    def again(self) -> Tap:
        """A tap that divides what another call reads by the edited scale."""
        return identity if self._edited is None else _Scale(identity, self._edited)

    def scope(self, name):
        return self._tap.scope(name)

    def wants(self, *names):
        return self._held is not None or self._tap.wants(*names)


def through_mlp(
    norm: eqx.Module, mlp: MLP | GatedMLP, x: Float[Array, "seq d_model"], tap: Tap
) -> Float[Array, "seq d_model"]:
    """What an MLP writes that reads the stream through a norm."""
    read = tap("in", x, "seq d_model")
    normed = tap("normed", per_token(norm, read, tap), "seq d_model")
    return mlp(normed, tap=tap)


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
