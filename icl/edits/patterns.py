"""Ideal attention patterns, made from the roles of the tokens."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

import opto
from opto.toolkit import fraction, is_concrete, number

from ..roles import EXEMPLARS, LABEL, LABELS, PAIR, QUERY, ROLE


@opto.toolkit.register
class Induction(opto.attention.Kind):
    """The query attends to the labels in context that equal its own.

    It needs the query's label, and this label must occur in the context.
    """

    weight: Float[Array, ""]

    def __init__(self, weight: ArrayLike = 1.0):
        """**Arguments:**

        - `weight`: The total attention to the correct labels, in [0, 1]; they share it
            equally. The other labels share the rest, if there are any. The induction
            strength is then `2 * weight - 1`.
        """
        self.weight = fraction("weight", weight)

    def needs(self) -> tuple[str, ...]:
        return (ROLE, PAIR, LABELS)

    def pattern(self, size, context):
        role, pair, labels = (context.base[name] for name in self.needs())
        here = labels[pair]
        asked = here[jnp.argmax(role == QUERY)]
        correct = (role == LABEL) & (here == asked)
        other = (role == LABEL) & (here != asked)
        context.require(
            jnp.any(correct),
            "Induction() cannot apply: the query's label is not in the context",
        )
        row = self.weight * _shared(correct) + (1 - self.weight) * _shared(other)
        row = jnp.where(jnp.any(other), row, _shared(correct))
        row = jnp.where(jnp.any(correct), row, jnp.nan)
        return jnp.broadcast_to(row, (size, size)), role == QUERY

    def arguments(self) -> dict[str, Any]:
        return {"weight": self.weight}


@opto.toolkit.register
class Match(opto.attention.Kind):
    """The query attends to labels whose exemplars are similar to the query.

    The attention is a softmax over the pairs. A pair's score is the cosine between its
    exemplar and the query, both before the embedding, divided by a temperature.
    """

    temperature: Float[Array, ""]

    def __init__(self, temperature: ArrayLike = 0.0):
        """**Arguments:** `temperature`: 0 or more. At 0, all attention goes to the
        nearest exemplar's label; equally near ones share it equally."""
        self.temperature = number("temperature", temperature)
        heat = self.temperature
        if is_concrete(heat) and not (heat.ndim == 0 and 0 <= float(heat) < np.inf):
            wanted = "0 or more and finite"
            raise ValueError(f"temperature must be {wanted}, got {temperature}")

    def needs(self) -> tuple[str, ...]:
        return (ROLE, PAIR, EXEMPLARS)

    def pattern(self, size, context):
        role, pair, exemplars = (context.base[name] for name in self.needs())
        label = role == LABEL
        context.require(jnp.any(label), "Match() cannot apply: no pair in the context")
        cosine = cosines(exemplars)[pair]
        cold = self.temperature == 0
        # Divide first, then mask: an infinity has no gradient in the temperature.
        warm = cosine / jnp.where(cold, 1, self.temperature)
        soft = jax.nn.softmax(jnp.where(label, warm, -jnp.inf))
        cosine = jnp.where(label, cosine, -jnp.inf)
        nearest = _shared(cosine >= jnp.max(cosine) - 1e-6)
        row = jnp.where(cold, nearest, soft)
        row = jnp.where(jnp.any(label), row, jnp.nan)
        return jnp.broadcast_to(row, (size, size)), role == QUERY

    def arguments(self) -> dict[str, Any]:
        return {"temperature": self.temperature}


def cosines(exemplars: Array) -> Float[Array, " exemplar"]:
    """The cosine of each exemplar with the last; for ids, 1 if equal and 0 if not."""
    if exemplars.ndim == 1:
        return (exemplars == exemplars[-1]).astype(float)
    flat = exemplars.reshape(len(exemplars), -1)
    length = jnp.sqrt(jnp.sum(flat**2, axis=1, keepdims=True))
    unit = flat / jnp.maximum(length, jnp.finfo(flat.dtype).tiny)
    return unit @ unit[-1]


def _shared(chosen: Bool[Array, " seq"]) -> Float[Array, " seq"]:
    """Attention of 1, shared equally by the chosen tokens; zeros if none is chosen."""
    return chosen / jnp.maximum(jnp.sum(chosen), 1)
