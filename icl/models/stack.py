"""Blocks of attention with a damped update, applied one after the other or repeatedly.

The models of von Oswald et al. (2023): most have no norm and no MLP, and their layers
may be tied.
"""

import dataclasses
from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from opto import identity, Tap

from ..checks import check_one_of, check_scale
from ..compile import computed_once
from ._faster_attention import attended
from ._layers import per_token
from ._mlp import MLP
from ._positions import AbstractPositions
from .attention import Attention


Channels = Literal["all", "last"]


@dataclasses.dataclass(frozen=True)
class ResidualUpdate:
    """How a layer changes the residual stream."""

    damping: float = 1.0
    """The factor on what a layer adds."""
    channels: Channels = "all"
    """Which channels attention changes. `"last"` is the one of the values $y$."""
    clip: float | None = None
    """The stream's entries stay within plus and minus this; `None` is no bound."""

    def __post_init__(self):
        check_scale("damping", self.damping)
        check_one_of("channels", self.channels, Channels)
        if self.clip is not None:
            check_scale("clip", self.clip)

    def attention(self, x: Array, out: Array) -> Array:
        """The stream after attention that gives `out`."""
        if self.channels == "last":
            return self._bounded(x.at[..., -1].add(self.damping * out[..., -1]))
        return self.mlp(x, out)

    def mlp(self, x: Array, out: Array) -> Array:
        """The stream after an MLP that gives `out`; all channels change."""
        return self._bounded(x + self.damping * out)

    def _bounded(self, x: Array) -> Array:
        return x if self.clip is None else jnp.clip(x, -self.clip, self.clip)


class StackBlock(eqx.Module):
    """Attention and, optionally, an MLP after it; a norm, if any, is before attention.

    `attn_norm` is a LayerNorm or an identity.
    """

    attn: Attention
    attn_norm: eqx.Module
    mlp: MLP | None
    update: ResidualUpdate = eqx.field(static=True)

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
        out = attended(self.attn, normed, positions, start=start, tap=attn_tap)
        x = self.update.attention(x[start:], out)
        if self.mlp is not None:
            x = tap("resid_mid", x, "seq d_model")
            x = self.update.mlp(x, self.mlp(x, tap=tap.scope("mlp")))
        return tap("resid_post", x, "seq d_model")


def stacked(
    blocks: Sequence[StackBlock],
    num_layers: int,
    x: Float[Array, "seq d_model"],
    positions: AbstractPositions,
    *,
    num_queries: int,
    tap: Tap = identity,
) -> list[Float[Array, "_ d_model"]]:
    """The residual stream after each of `num_layers` applications of blocks.

    Blocks take turns; with one block, the layers are tied. An edit at `blocks.0`,
    `blocks.1`, … changes only that application. The last application computes only the
    rows of the queries, which come last, unless `tap` asks for a site there.
    """
    # Queries, keys and values read the stream: XLA would compute it for each of them.
    stream, after = computed_once(tap("embed", x, "seq d_model")), []
    for i in range(num_layers):
        block, name = blocks[i % len(blocks)], f"blocks.{i}"
        last = i == num_layers - 1 and not tap.wants(name)
        start = len(x) - num_queries if last else 0
        stream = block(stream, positions, start=start, tap=tap.scope(name))
        stream = computed_once(stream)
        after.append(stream)
    return after
