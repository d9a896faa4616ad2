"""Attention edits of icl-dynamics that differ from ours."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from opto.attention import Block, Kind
from opto.toolkit import Derived, Edit, register, RunContext, Sites

from ...edits.patterns import cosines
from ...roles import EXEMPLARS, LABEL, LABELS, PAIR, QUERY, ROLE


@register
class UnnormalisedInduction(Kind):
    """The query attends to each correct label with `weight`, to others with the rest.

    The same as `icl.edits.Induction` for one correct and one other label. Otherwise the
    attention does not sum to one.
    """

    weight: Float[Array, ""]

    def __init__(self, weight: ArrayLike = 1.0):
        """**Arguments:** `weight`: The attention to each label equal to the query's."""
        self.weight = jnp.asarray(weight, float)

    def needs(self) -> tuple[str, ...]:
        return (ROLE, PAIR, LABELS)

    def pattern(self, size: int, context: RunContext):
        role, pair, labels = (context.base[name] for name in self.needs())
        row = jnp.where(labels[pair] == labels[-1], self.weight, 1 - self.weight)
        row = jnp.where(role == LABEL, row, 0)
        return jnp.broadcast_to(row, (size, size)), role == QUERY

    def arguments(self) -> dict[str, Any]:
        return {"weight": self.weight}


@register
class UnnormalisedMatch(Kind):
    """As `icl.edits.Match`, but equally near exemplars each get the full attention."""

    temperature: Float[Array, ""]

    def __init__(self, temperature: ArrayLike = 0.0):
        """**Arguments:** `temperature`: 0 attends only to the nearest exemplars."""
        self.temperature = jnp.asarray(temperature, float)

    def needs(self) -> tuple[str, ...]:
        return (ROLE, PAIR, EXEMPLARS)

    def pattern(self, size: int, context: RunContext):
        role, pair, exemplars = (context.base[name] for name in self.needs())
        label = role == LABEL
        cosine = cosines(exemplars)[pair]
        cold = self.temperature == 0
        warm = cosine / jnp.where(cold, 1, self.temperature)
        soft = jax.nn.softmax(jnp.where(label, warm, -jnp.inf))
        cosine = jnp.where(label, cosine, -jnp.inf)
        row = jnp.where(cold, cosine == jnp.max(cosine), soft)
        return jnp.broadcast_to(row, (size, size)), role == QUERY

    def arguments(self) -> dict[str, Any]:
        return {"temperature": self.temperature}


@register
class SilenceNonLabels(Derived):
    """Some heads of the model's last layer let the query see only labels."""

    heads: tuple[int, ...]

    def __init__(self, heads: Sequence[int]):
        """**Arguments:** `heads`: The numbers of the heads."""
        self.heads = tuple(int(head) for head in heads)

    def needs(self, table: Sites) -> tuple[str, ...]:
        return self._block(table).needs(table)

    def derive(self, context: RunContext) -> tuple[Edit, ...]:
        return self._block(context.table).derive(context)

    def check(self, table: Sites) -> None:
        self._block(table).check(table)

    def arguments(self) -> dict[str, Any]:
        return {"heads": list(self.heads)}

    def _block(self, table: Sites) -> Block:
        scores = table.match("blocks.*.attn.scores")
        return Block(
            queries="query",
            keys="exemplar query",
            site=scores[-1].name,
            head=list(self.heads),
        )
