"""Ideal attention patterns that are made from what the tokens are."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

import opto
from opto.toolkit import fraction, is_concrete, number

from ..roles import EXEMPLARS, LABEL, LABELS, PAIR, QUERY, ROLE


@opto.register
class Induction(opto.Kind):
    """The query attends to the labels in context that are its own.

    It needs the query's label, and a query whose label occurs in the context.
    """

    weight: Float[Array, ""]

    def __init__(self, weight: ArrayLike = 1.0):
        """**Arguments:**

        - `weight`: The attention to the correct labels together, in [0, 1], shared
            equally; the rest is shared by the other labels, if there are any. The
            induction strength is twice this less one.
        """
        self.weight = fraction("weight", weight)

    def needs(self) -> tuple[str, ...]:
        return (ROLE, PAIR, LABELS)

    def pattern(self, size, given):
        role, pair, labels = (given.base[name] for name in self.needs())
        here = labels[pair]
        asked = here[jnp.argmax(role == QUERY)]
        correct = (role == LABEL) & (here == asked)
        other = (role == LABEL) & (here != asked)
        given.require(
            jnp.any(correct),
            "Induction() cannot apply: the query's label is not in the context",
        )
        row = self.weight * _shared(correct) + (1 - self.weight) * _shared(other)
        row = jnp.where(jnp.any(other), row, _shared(correct))
        row = jnp.where(jnp.any(correct), row, jnp.nan)
        return jnp.broadcast_to(row, (size, size)), role == QUERY

    def rows(self, size, constants):
        return _of_query(constants)

    def arguments(self) -> dict[str, Any]:
        return {"weight": self.weight}


@opto.register
class Match(opto.Kind):
    """The query attends to labels by how alike their exemplars are to its own.

    The softmax over the pairs of the cosine between exemplar and query, as they are
    before the embedding, divided by a temperature.
    """

    temperature: Float[Array, ""]

    def __init__(self, temperature: ArrayLike = 0.0):
        """**Arguments:** `temperature`: 0 is the nearest exemplar alone (or several,
        shared equally, that are equally near)."""
        self.temperature = number("temperature", temperature)
        heat = self.temperature
        if is_concrete(heat) and not (heat.ndim == 0 and 0 <= float(heat) < np.inf):
            raise ValueError(f"temperature is a number, 0 or more, got {temperature}")

    def needs(self) -> tuple[str, ...]:
        return (ROLE, PAIR, EXEMPLARS)

    def pattern(self, size, given):
        role, pair, exemplars = (given.base[name] for name in self.needs())
        label = role == LABEL
        given.require(jnp.any(label), "Match() cannot apply: no pair in the context")
        cosine = cosines(exemplars)[pair]
        cold = self.temperature == 0
        # Divided before it is masked: infinities have no gradient in the temperature.
        warm = cosine / jnp.where(cold, 1, self.temperature)
        soft = jax.nn.softmax(jnp.where(label, warm, -jnp.inf))
        cosine = jnp.where(label, cosine, -jnp.inf)
        nearest = _shared(cosine >= jnp.max(cosine) - 1e-6)
        row = jnp.where(cold, nearest, soft)
        row = jnp.where(jnp.any(label), row, jnp.nan)
        return jnp.broadcast_to(row, (size, size)), role == QUERY

    def rows(self, size, constants):
        return _of_query(constants)

    def arguments(self) -> dict[str, Any]:
        return {"temperature": self.temperature}


def _of_query(constants: Mapping[str, np.ndarray]) -> np.ndarray | None:
    return constants[ROLE] == QUERY if ROLE in constants else None


def cosines(exemplars: Array) -> Float[Array, " exemplar"]:
    """The cosine between each exemplar and the last; of ids, whether they are equal."""
    if exemplars.ndim == 1:
        return (exemplars == exemplars[-1]).astype(float)
    flat = exemplars.reshape(len(exemplars), -1)
    length = jnp.sqrt(jnp.sum(flat**2, axis=1, keepdims=True))
    unit = flat / jnp.maximum(length, jnp.finfo(flat.dtype).tiny)
    return unit @ unit[-1]


def _shared(chosen: Bool[Array, " seq"]) -> Float[Array, " seq"]:
    """Attention shared equally by the chosen tokens; none if there are none."""
    return chosen / jnp.maximum(jnp.sum(chosen), 1)
