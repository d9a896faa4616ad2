"""The modules of the GPT-2 family; `gpt2.py` has their config."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from opto import identity, Tap

from ..checks import check_axes, check_prompt
from ..roles import EXEMPLAR, LABEL, PADDING
from ._init import linear_with
from ._layers import looked_up, per_token
from ._positions import LearnedPositions
from ._transformer import TransformerBlock


class AbstractGPT2(eqx.Module):
    """What both kinds of GPT-2 share: positions, blocks and the last norm."""

    positions: eqx.AbstractVar[LearnedPositions]
    blocks: eqx.AbstractVar[tuple[TransformerBlock, ...]]
    final_norm: eqx.AbstractVar[eqx.nn.LayerNorm]

    def _normed(
        self,
        x: Float[Array, "seq d_model"],
        tap: Tap,
        real: Bool[Array, " seq"] | None = None,
    ) -> Float[Array, "seq d_model"]:
        """The normed stream after all blocks, from embedded tokens."""
        x = tap("tok_embed", x, "seq d_model")
        x = tap("embed", self.positions.embed(x, real), "seq d_model")
        for i, block in enumerate(self.blocks):
            x = block(x, self.positions, real=real, tap=tap.scope(f"blocks.{i}"))
        final = tap.scope("final")
        x = final("in", x, "seq d_model")
        return final("normed", per_token(self.final_norm, x, final), "seq d_model")


class GPT2Tokens(AbstractGPT2):
    """A language model: from the ids of a sequence to the next token's logits."""

    embedding: eqx.nn.Embedding
    positions: LearnedPositions
    blocks: tuple[TransformerBlock, ...]
    final_norm: eqx.nn.LayerNorm
    untied: eqx.nn.Linear | None
    """The unembedding, or `None` if it is the embedding's own table."""
    input_axes: tuple[str] = eqx.field(static=True, default=("seq",))

    @property
    def unembed(self) -> eqx.nn.Linear:
        """The layer that gives logits, `[label, d_model]`."""
        return self.untied or linear_with(self.embedding.weight)

    def __call__(
        self, ids: Int[Array, " seq"], *, tap: Tap = identity
    ) -> Float[Array, "seq label"]:
        """The logits at each token. `PADDING` and unknown ids are as in `Decoder`."""
        ids = jnp.asarray(ids)
        check_axes(ids=(ids, "seq"))
        ids = tap.scope("tokens")("id", ids, "seq")
        real = ids != PADDING
        x = looked_up(self.embedding.weight, jnp.where(real, ids, 0))
        x = self._normed(x, tap, real)
        return tap("logits", per_token(self.unembed, x), "seq label")


class GPT2Points(AbstractGPT2):
    """Predicts the value at each point from the points and values before it.

    Its tokens are x₁, y₁, x₂, y₂, …, where a value is the vector [y, 0, …, 0]. A
    prediction is read off at the token of its point.
    """

    read_in: eqx.nn.Linear
    positions: LearnedPositions
    blocks: tuple[TransformerBlock, ...]
    final_norm: eqx.nn.LayerNorm
    unembed: eqx.nn.Linear
    input_axes: tuple[str, str] = eqx.field(static=True, default=("point dim", "point"))

    def __call__(
        self,
        xs: Float[Array, "point dim"],
        ys: Float[Array, " point"],
        *,
        tap: Tap = identity,
    ) -> Float[Array, " point"]:
        """The prediction at each point. The last value is finite, and has no effect."""
        self._check(xs, ys)
        tokens = tap.scope("tokens")
        xs, ys = tokens("x", xs, "point dim"), tokens("y", ys, "point")
        tokens("role", jnp.tile(jnp.array([EXEMPLAR, LABEL]), len(xs)), "seq")
        values = jnp.zeros_like(xs).at[:, 0].set(ys)
        both = jnp.stack([xs, values], 1).reshape(-1, xs.shape[-1])
        x = self._normed(per_token(self.read_in, both), tap)
        logits = tap("logits", per_token(self.unembed, x), "seq output")
        return tap("prediction", logits[::2, 0], "point")

    def _check(self, xs: Array, ys: Array) -> None:
        check_prompt(xs, ys)
        if xs.shape[-1] != self.read_in.in_features:
            wanted = f"xs must have {self.read_in.in_features} components"
            raise ValueError(f"{wanted}, got {xs.shape[-1]}")
