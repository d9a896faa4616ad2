"""The same model for exemplars that are known beforehand.

A program that runs a model on many sequences of few exemplars can do part of the work
once per exemplar: the part that does not depend on other tokens.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from opto import identity, Tap

from ._embedding import name_tokens
from ._exemplar_label import ExemplarLabelModel
from ._layers import per_token
from ._positions import AbstractPositions
from ._transformer import TransformerBlock
from .attention import Attention


def with_known_exemplars(
    model: ExemplarLabelModel, examples: Float[Array, "id dim"]
) -> ExemplarLabelModel:
    """A model that takes ids of some exemplars where `model` takes vectors.

    Its outputs are those of `model` for `examples[id]`, up to rounding. It embeds each
    exemplar once. It has all sites, but `tokens.exemplar` has ids.
    """
    layer = model.embedding.exemplar
    table = eqx.nn.Embedding(weight=per_token(layer, examples))
    embedding = dataclasses.replace(model.embedding, exemplar=table)
    return dataclasses.replace(
        model, embedding=embedding, input_axes=("exemplar", "exemplar")
    )


def with_known_tokens(
    model: ExemplarLabelModel, examples: Float[Array, "id dim"]
) -> ExemplarLabelModel | None:
    """Like `with_known_exemplars`, and with the first layer's queries, keys, values.

    It has no sites before these, except `tokens`. Returns `None` if queries, keys and
    values depend on the position, because positions are added to the embedding.
    """
    embedding = model.embedding
    known = per_token(embedding.exemplar, examples)
    rows = jnp.concatenate([known, embedding.label.weight])
    one = rows[:1]  # One row: learned positions are limited to a sequence's length.
    if embedding.positions.embed(one) is not one:
        return None
    # A row for labels that the model does not have.
    rows = jnp.concatenate([rows, jnp.full((1, rows.shape[1]), jnp.nan)])
    first, *others = model.blocks
    normed = per_token(first.attn_norm, rows)
    attn = first.attn
    tables = tuple(
        eqx.nn.Embedding(weight=per_token(layer, normed))
        for layer in (attn.query, attn.key, attn.value)
    )
    attn = eqx.tree_at(lambda a: (a.query, a.key, a.value), attn, tables)
    ids = _TokenIds(embedding.positions, len(known), len(embedding.label.weight))
    blocks = (_KnownBlock(rows, attn, first), *others)
    model = dataclasses.replace(model, input_axes=("exemplar", "exemplar"))
    return eqx.tree_at(lambda m: (m.embedding, m.blocks), model, (ids, blocks))


class _TokenIds(eqx.Module):
    """Replaces an embedding: says which row of a table each token is."""

    positions: AbstractPositions
    num_exemplars: int = eqx.field(static=True)
    num_labels: int = eqx.field(static=True)

    def __call__(
        self,
        examples: Int[Array, " exemplar"],
        labels: Int[Array, " exemplar"],
        *,
        tap: Tap = identity,
    ) -> Int[Array, " seq"]:
        name_tokens(labels, tap.scope("tokens"))
        there = (labels >= 0) & (labels < self.num_labels)
        rows = self.num_exemplars + jnp.where(there, labels, self.num_labels)
        pairs = jnp.stack([examples[:-1], rows[:-1]], 1).reshape(-1)
        return jnp.concatenate([pairs, examples[-1:]])


class _KnownBlock(eqx.Module):
    """The first block; its attention looks up the tokens' queries, keys and values."""

    rows: Float[Array, "row d_model"]
    attn: Attention
    block: TransformerBlock

    def __call__(
        self,
        x: Int[Array, " seq"],
        positions: AbstractPositions,
        *,
        start: int = 0,
        tap: Tap = identity,
    ) -> Float[Array, "query_seq d_model"]:
        out = self.attn(x, positions, start=start, tap=tap.scope("attn"))
        return self.block.after_attention(self.rows[x[start:]] + out, tap)
