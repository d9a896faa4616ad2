"""Ideal attention patterns, made from what the tokens are."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from ._derived import Given
from ._literal import literal
from ._tokens import (
    check_roles,
    EXEMPLARS,
    has_role,
    LABEL,
    LABELS,
    PAIR,
    QUERY,
    ROLE,
)
from ._where import is_concrete, known


class Kind(eqx.Module):
    """An ideal attention pattern: which rows it sets, and to what."""

    @abc.abstractmethod
    def needs(self) -> tuple[str, ...]:
        """The sites that say what it has to know of the tokens."""

    @abc.abstractmethod
    def pattern(
        self, size: int, given: Given
    ) -> tuple[Float[Array, "seq kv_seq"], Bool[Array, " seq"]]:
        """The pattern among `size` tokens, and which of its rows are meant."""

    @abc.abstractmethod
    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments, for the text form."""

    def __repr__(self) -> str:
        """The text form, which `opto.parse` reads within that of an edit."""
        parts = [f"{name}={literal(x)}" for name, x in self.arguments().items()]
        return f"{type(self).__name__}({', '.join(parts)})"


class PreviousToken(Kind):
    """Each token attends to the one before it, the first to itself."""

    weight: Float[Array, ""]
    queries: str = eqx.field(static=True)

    def __init__(self, weight: ArrayLike = 1.0, *, queries: str = "all"):
        """**Arguments:**

        - `weight`: The attention to the token before, in [0, 1]; the rest goes to the
            token itself.
        - `queries`: The tokens that attend so: `"all"`, or a role such as `"label"`.
        """
        self.weight = fraction("weight", weight)
        self.queries = check_roles("queries", queries)

    def needs(self) -> tuple[str, ...]:
        return () if self.queries == "all" else (ROLE,)

    def pattern(self, size, given):
        before = self.weight * jnp.eye(size, k=-1) + (1 - self.weight) * jnp.eye(size)
        return before.at[0, 0].set(1), rows_of(self.queries, size, given)

    def arguments(self) -> dict[str, Any]:
        return {"weight": self.weight, **not_all("queries", self.queries)}


class Uniform(Kind):
    """Each token attends equally to itself and all before it."""

    queries: str = eqx.field(static=True)

    def __init__(self, *, queries: str = "all"):
        """**Arguments:** `queries`: `"all"` tokens, or a role such as `"query"`."""
        self.queries = check_roles("queries", queries)

    def needs(self) -> tuple[str, ...]:
        return () if self.queries == "all" else (ROLE,)

    def pattern(self, size, given):
        uniform = np.tri(size) / np.arange(1, size + 1)[:, None]
        return jnp.asarray(uniform), rows_of(self.queries, size, given)

    def arguments(self) -> dict[str, Any]:
        return not_all("queries", self.queries)


class Induction(Kind):
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

    def arguments(self) -> dict[str, Any]:
        return {"weight": self.weight}


class Match(Kind):
    """The query attends to labels by how alike their exemplars are to its own.

    The softmax over the pairs of the cosine between exemplar and query, as they are
    before the embedding, divided by a temperature.
    """

    temperature: Float[Array, ""]

    def __init__(self, temperature: ArrayLike = 0.0):
        """**Arguments:** `temperature`: 0 is the nearest exemplar alone (or several,
        shared equally, that are equally near)."""
        self.temperature = known(temperature, float)
        number = self.temperature
        if is_concrete(number) and not (
            number.ndim == 0 and 0 <= float(number) < np.inf
        ):
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

    def arguments(self) -> dict[str, Any]:
        return {"temperature": self.temperature}


def cosines(exemplars: Array) -> Float[Array, " exemplar"]:
    """The cosine between each exemplar and the last; of ids, whether they are equal."""
    if exemplars.ndim == 1:
        return (exemplars == exemplars[-1]).astype(float)
    flat = exemplars.reshape(len(exemplars), -1)
    length = jnp.sqrt(jnp.sum(flat**2, axis=1, keepdims=True))
    unit = flat / jnp.maximum(length, jnp.finfo(flat.dtype).tiny)
    return unit @ unit[-1]


def rows_of(roles: str, size: int, given: Given) -> Bool[Array, " seq"]:
    """Which of `size` tokens have one of some roles."""
    if roles == "all":
        return jnp.ones(size, bool)
    return has_role(given.base[ROLE], roles)


def _shared(chosen: Bool[Array, " seq"]) -> Float[Array, " seq"]:
    """Attention shared equally by the chosen tokens; none if there are none."""
    return chosen / jnp.maximum(jnp.sum(chosen), 1)


def fraction(argument: str, value: ArrayLike) -> Float[Array, ""]:
    """A number; raises `ValueError` unless it is in [0, 1]."""
    number = known(value, float)
    if is_concrete(number) and not (number.ndim == 0 and 0 <= float(number) <= 1):
        raise ValueError(f"{argument} is a number in [0, 1], got {value}")
    return number


def not_all(argument: str, roles: str) -> dict[str, str]:
    """Roles as an argument of the text form, left out where they are all there are."""
    return {} if roles == "all" else {argument: roles}
