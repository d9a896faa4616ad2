"""Attention patterns made from what the tokens are, and edits that clamp to them."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from ._derived import check_needs, Derived, Given, over_rows, put, square
from ._edit import check_strength, Edit, Heads, select, Selection
from ._literal import literal
from ._site import Site, Sites
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
from ._where import Chosen, is_concrete, known, Where


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
        self.weight = _fraction("weight", weight)
        self.queries = check_roles("queries", queries)

    def needs(self) -> tuple[str, ...]:
        return () if self.queries == "all" else (ROLE,)

    def pattern(self, size, given):
        before = self.weight * jnp.eye(size, k=-1) + (1 - self.weight) * jnp.eye(size)
        return before.at[0, 0].set(1), _rows(self.queries, size, given)

    def arguments(self) -> dict[str, Any]:
        return {"weight": self.weight, **_not_all("queries", self.queries)}


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
        return jnp.asarray(uniform), _rows(self.queries, size, given)

    def arguments(self) -> dict[str, Any]:
        return _not_all("queries", self.queries)


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
        self.weight = _fraction("weight", weight)

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
        cosine = jnp.where(label, cosine, -jnp.inf)
        cold = self.temperature == 0
        nearest = _shared(cosine >= jnp.max(cosine) - 1e-6)
        soft = jax.nn.softmax(cosine / jnp.where(cold, 1, self.temperature))
        row = jnp.where(cold, nearest, soft)
        row = jnp.where(jnp.any(label), row, jnp.nan)
        return jnp.broadcast_to(row, (size, size)), role == QUERY

    def arguments(self) -> dict[str, Any]:
        return {"temperature": self.temperature}


class Pattern(Derived, Selection):
    """Clamps the attention of heads to an ideal pattern.

    ```python
    Pattern(PreviousToken(0.7), heads="0:2")
    Pattern(Induction(), heads="1:3 1:7")
    ```
    """

    default: ClassVar[str] = "**.pattern"

    kind: Kind
    site: str = eqx.field(static=True)
    where: Where
    strength: Float[Array, "..."]

    def __init__(
        self,
        kind: Kind,
        *,
        site: str = default,
        strength: ArrayLike = 1.0,
        heads: Heads = None,
        **where: Chosen,
    ):
        """**Arguments:**

        - `kind`: `PreviousToken`, `Induction`, `Match`, `Uniform`, or one's own `Kind`.
        - `site`: Where attention after the softmax is, `[…, query, key]`.
        - `strength`, `heads`, `where`: as for `opto.Clamp`.

        **Raises:** `ValueError` from `opto.run` for a sequence that has no such
        pattern; where that cannot be raised, the pattern is NaN.
        """
        if not isinstance(kind, Kind):
            wanted = "a kind of pattern such as Induction()"
            raise ValueError(f"Pattern takes {wanted}, got {kind!r}")
        select(self, site, strength, heads, where)
        self.kind = kind

    def needs(self, table: Sites) -> tuple[str, ...]:
        return self.kind.needs()

    def derive(self, given: Given) -> tuple[Edit, ...]:
        return tuple(
            self._at(site, *self.kind.pattern(site.shape[-1], given))
            for site in self.where.within(given.table.match(self.site))
        )

    def check(self, table: Sites) -> None:
        sites = table.match(self.site)
        self.where.check(sites)
        check_strength(self.strength)
        square(self, sites)
        check_needs(self, self.kind.needs(), table)

    def arguments(self) -> dict[str, Any]:
        return {"kind": self.kind, **_not_default(self)}

    def _at(self, site: Site, pattern: Array, rows: Array) -> Edit:
        rank = len(site.shape)
        where = self.where.only(over_rows(rows[:, None], rank))
        values = {site.name: over_rows(pattern, rank)}
        return put(site.name, values, where, self.strength)


class Block(Derived, Selection):
    """Forbids attention from some tokens to some tokens, before the softmax.

    ```python
    Block(distance=1, queries="label", heads="0:1")  # labels to their exemplars
    Block(queries="query", keys="exemplar query", layer=1)  # the query: labels alone
    ```

    What is left shares the attention. A row with nothing left is NaN.
    """

    default: ClassVar[str] = "**.scores"

    queries: str = eqx.field(static=True)
    keys: str = eqx.field(static=True)
    distance: int | None = eqx.field(static=True)
    site: str = eqx.field(static=True)
    where: Where
    strength: Float[Array, "..."]

    def __init__(
        self,
        *,
        queries: str = "all",
        keys: str = "all",
        distance: int | None = None,
        site: str = default,
        strength: ArrayLike = 1.0,
        heads: Heads = None,
        **where: Chosen,
    ):
        """**Arguments:**

        - `queries`, `keys`: Which tokens may not attend to which: `"all"`, or roles
            such as `"label"` and `"exemplar query"`.
        - `distance`: Forbid the token so many places before alone; `None` is any.
        - `site`: Where the scores are, before the softmax, `[…, query, key]`.
        - `strength`: Attention is multiplied by one less this, in [0, 1], before it is
            normalised: 1 forbids it.
        - `heads`, `where`: as for `opto.Clamp`.
        """
        select(self, site, strength, heads, where)
        _fraction("strength", strength)
        self.queries = check_roles("queries", queries)
        self.keys = check_roles("keys", keys)
        if distance is not None and (not isinstance(distance, int) or distance < 0):
            raise ValueError(f"distance is a number of tokens or None, got {distance}")
        if (queries, keys, distance) == ("all", "all", None):
            raise ValueError("Block() of all would leave no attention: say which")
        self.distance = distance

    def needs(self, table: Sites) -> tuple[str, ...]:
        return () if self.queries == self.keys == "all" else (ROLE,)

    def derive(self, given: Given) -> tuple[Edit, ...]:
        edits = []
        for site in self.where.within(given.table.match(self.site)):
            size, rank = site.shape[-1], len(site.shape)
            blocked = _rows(self.queries, size, given)[:, None]
            blocked = blocked & _rows(self.keys, size, given)
            if self.distance is not None:
                blocked = blocked & np.eye(size, k=-self.distance, dtype=bool)
            where = self.where.only(over_rows(blocked, rank))
            edits.append(_Forbid(site.name, where, self.strength))
        return tuple(edits)

    def check(self, table: Sites) -> None:
        sites = table.match(self.site)
        self.where.check(sites)
        check_strength(self.strength)
        square(self, sites)
        check_needs(self, self.needs(table), table)

    def arguments(self) -> dict[str, Any]:
        distance = {} if self.distance is None else {"distance": self.distance}
        roles = _not_all("queries", self.queries) | _not_all("keys", self.keys)
        return {**roles, **distance, **_not_default(self)}


class _Forbid(Edit):
    """Lowers scores so that attention is `1 - amount` times what it was."""

    site: str = eqx.field(static=True)
    where: Where
    strength: Float[Array, "..."]
    amount: Float[Array, "..."]

    def __init__(self, site: str, where: Where, amount: Array):
        select(self, site, 1.0, None, {})
        self.where, self.amount = where, amount

    def replacement(self, value: Array, site: Site) -> Array:
        whole = self.amount == 1
        less = jnp.log1p(-jnp.where(whole, 0, self.amount))
        forbidden = jnp.maximum(jnp.finfo(value.dtype).min, _FORBIDDEN)
        new = jnp.where(whole, forbidden, value + less.astype(value.dtype))
        mask = self.where.mask(site)
        after = new if mask is None else jnp.where(mask, new, value)
        # The softmax of a row that is forbidden whole would say that it attends evenly.
        nothing = jnp.max(after, -1, keepdims=True) <= forbidden
        return jnp.where(whole & nothing, jnp.nan, new)

    def arguments(self) -> dict[str, Any]:
        return {"amount": self.amount}


# Finite, as infinities turn into NaN gradients; the softmax gives exactly zero.
_FORBIDDEN = -1e20


def cosines(exemplars: Array) -> Float[Array, " exemplar"]:
    """The cosine between each exemplar and the last; of ids, whether they are equal."""
    if exemplars.ndim == 1:
        return (exemplars == exemplars[-1]).astype(float)
    flat = exemplars.reshape(len(exemplars), -1)
    length = jnp.sqrt(jnp.sum(flat**2, axis=1, keepdims=True))
    unit = flat / jnp.maximum(length, jnp.finfo(flat.dtype).tiny)
    return unit @ unit[-1]


def _rows(roles: str, size: int, given: Given) -> Bool[Array, " seq"]:
    if roles == "all":
        return jnp.ones(size, bool)
    return has_role(given.base[ROLE], roles)


def _shared(chosen: Bool[Array, " seq"]) -> Float[Array, " seq"]:
    """Attention shared equally by the chosen tokens; none if there are none."""
    return chosen / jnp.maximum(jnp.sum(chosen), 1)


def _fraction(argument: str, value: ArrayLike) -> Float[Array, ""]:
    number = known(value, float)
    if is_concrete(number) and not (number.ndim == 0 and 0 <= float(number) <= 1):
        raise ValueError(f"{argument} is a number in [0, 1], got {value}")
    return number


def _not_all(argument: str, roles: str) -> dict[str, str]:
    return {} if roles == "all" else {argument: roles}


def _not_default(edit: Any) -> dict[str, str]:
    return {} if edit.site == edit.default else {"site": edit.site}
