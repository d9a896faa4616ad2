"""Edits of attention: patterns that heads are clamped to, and links that are cut."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from ._checks import whole
from ._derived import check_attention, Derived, over_rows, put, RunContext
from ._edit import check_strength, Edit, Heads, number, select, Selection
from ._literal import literal, Written
from ._site import scope_of, Site, Sites
from ._tap import RowsAre
from ._tokens import (
    check_tokens,
    name_tokens as name_tokens,
    not_all,
    sites_of,
    tokens_of,
)
from ._where import Chosen, is_concrete, Where
from .hints import brief


class Kind(Written, eqx.Module):
    """An ideal attention pattern: which rows it sets, and to what."""

    @abc.abstractmethod
    def needs(self) -> tuple[str, ...]:
        """The sites that say what the pattern has to know of the tokens."""

    @abc.abstractmethod
    def pattern(
        self, size: int, context: RunContext
    ) -> tuple[Float[Array, "seq kv_seq"], Bool[Array, " seq"]]:
        """The pattern among `size` tokens, and which of its rows to set."""

    @abc.abstractmethod
    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments, for the text form."""

    def text(self, most: int | None = None) -> str:
        parts = [f"{name}={literal(x, most)}" for name, x in self.arguments().items()]
        return f"{type(self).__name__}({', '.join(parts)})"


class PreviousToken(Kind):
    """Each token attends to the one before it, the first to itself."""

    weight: Float[Array, ""]
    queries: str = eqx.field(static=True)

    def __init__(self, weight: ArrayLike = 1.0, *, queries: str = "all"):
        """**Arguments:**

        - `weight`: The attention to the token before, in [0, 1]; the rest goes to the
            token itself.
        - `queries`: The tokens that attend this way: `"all"`, or names that
            `opto.attention.name_tokens` gave.
        """
        self.weight = fraction("weight", weight)
        self.queries = check_tokens("queries", queries)

    def needs(self) -> tuple[str, ...]:
        return sites_of(self.queries)

    def pattern(self, size, context):
        before = self.weight * jnp.eye(size, k=-1) + (1 - self.weight) * jnp.eye(size)
        return before.at[0, 0].set(1), tokens_of(self.queries, size, context.base)

    def arguments(self) -> dict[str, Any]:
        return {"weight": self.weight, **not_all("queries", self.queries)}


class Uniform(Kind):
    """Each token attends equally to itself and all before it."""

    queries: str = eqx.field(static=True)

    def __init__(self, *, queries: str = "all"):
        """**Arguments:** `queries`: As for `PreviousToken`."""
        self.queries = check_tokens("queries", queries)

    def needs(self) -> tuple[str, ...]:
        return sites_of(self.queries)

    def pattern(self, size, context):
        uniform = np.tri(size) / np.arange(1, size + 1)[:, None]
        return jnp.asarray(uniform), tokens_of(self.queries, size, context.base)

    def arguments(self) -> dict[str, Any]:
        return not_all("queries", self.queries)


def fraction(argument: str, value: ArrayLike) -> Float[Array, ""]:
    """A number; raises `ValueError` unless it is in [0, 1]."""
    share = number(argument, value)
    if is_concrete(share) and not (share.ndim == 0 and 0 <= float(share) <= 1):
        raise ValueError(f"{argument} is a number in [0, 1], got {value}")
    return share


class Pattern(Derived, Selection):
    """Clamps the attention of heads to an ideal pattern.

    Attention to tokens that a query does not see, such as padding, goes to those of the
    pattern that it sees; if it sees none of them, to itself. Padding is left alone.

    ```python
    Pattern(PreviousToken(0.7), heads="0:2")
    Pattern(Uniform(), heads="1:3 1:7")
    ```
    """

    default: ClassVar[str] = "**.pattern"
    rows: ClassVar[tuple[RowsAre, ...]] = ("distribution",)

    kind: Kind
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

        - `kind`: `PreviousToken`, `Uniform`, or another `Kind`.
        - `site`: The attention after the softmax, `[…, query, key]`. Its rows are
            distributions; the keys may be only the first tokens.
        - `strength`, `heads`, `where`: as for `opto.Clamp`.

        **Raises:** `ValueError` from `opto.run` for a sequence that has no such
        pattern, and for a pattern that attends to tokens that are not keys. Within your
        own `jit`, where nothing can be raised, the pattern is NaN.
        """
        if not isinstance(kind, Kind):
            wanted = "a kind of pattern such as Uniform()"
            raise ValueError(f"Pattern takes {wanted}, got {brief(kind)}")
        select(self, site, strength, heads, where)
        self.kind = kind

    def needs(self, table: Sites) -> tuple[str, ...]:
        # What queries see is known before any score, so this costs next to nothing.
        seen = (_seen(site) for site in table.match(self.site))
        return (*self.kind.needs(), *(name for name in seen if name in table))

    def derive(self, context: RunContext) -> tuple[Edit, ...]:
        return tuple(
            self._at(site, *self._among_seen(site, context))
            for site in self.where.within(context.table.match(self.site))
        )

    def check(self, table: Sites) -> None:
        sites = table.match(self.site)
        self.where.check(sites)
        check_strength(self.strength)
        check_attention(self, sites, self.rows, self.kind.needs(), table)

    def arguments(self) -> dict[str, Any]:
        return {"kind": self.kind, **_not_default(self)}

    def _among_seen(self, site: Site, context: RunContext) -> tuple[Array, Array]:
        """The pattern among the tokens that each query sees; none for padding."""
        pattern, rows = self._cut(site, context)
        seen = context.base.get(_seen(site))
        if seen is None:
            return pattern, rows
        left = jnp.where(seen, pattern, 0)
        total, rest = (x.sum(-1, keepdims=True) for x in (pattern, left))
        itself = jnp.eye(*pattern.shape, dtype=pattern.dtype) * total
        shared = jnp.where(
            rest == 0, itself, left * (total / jnp.where(rest == 0, 1, rest))
        )
        lost = jnp.any(~seen & (pattern != 0), -1, keepdims=True)
        return jnp.where(lost, shared, pattern), rows & seen.any(-1)

    def _cut(self, site: Site, context: RunContext) -> tuple[Array, Array]:
        """The pattern, cut to tokens that are keys, and which of its rows to set."""
        queries, keys = site.shape[-2:]
        pattern, rows = self.kind.pattern(queries, context)
        if keys == queries:
            return pattern, rows
        lost = rows & jnp.any(pattern[:, keys:] != 0, -1)
        context.require(
            ~jnp.any(lost),
            f"{type(self.kind).__name__}() attends to tokens that are not keys at "
            f"{site.name!r}",
        )
        return jnp.where(lost[:, None], jnp.nan, pattern[:, :keys]), rows

    def _at(self, site: Site, pattern: Array, rows: Array) -> Edit:
        rank = len(site.shape)
        where = self.where.only(over_rows(rows[:, None], rank))
        values = {site.name: jnp.broadcast_to(over_rows(pattern, rank), site.shape)}
        return put(site.name, values, where, self.strength)


class Block(Derived, Selection):
    """Forbids attention from some tokens to some tokens, before it is normalised.

    ```python
    Block(distance=1, heads="0:1")  # each token to the one before it
    Block(distance=1, site="**.kernel")  # for attention without a softmax
    Block(queries="space", keys="word", layer=1)  # see `name_tokens`
    ```

    The remaining keys share the attention. A row with no key left is NaN, or zero if
    the kind of attention does not divide rows by their sums.
    """

    default: ClassVar[str] = "**.scores"
    rows: ClassVar[tuple[RowsAre, ...]] = ("logits", "kernel")

    queries: str = eqx.field(static=True)
    keys: str = eqx.field(static=True)
    distance: int | None = eqx.field(static=True)
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

        - `queries`, `keys`: Which tokens may not attend to which: `"all"`, or names
            that `opto.attention.name_tokens` gave, such as `"word"` and `"word space"`.
        - `distance`: Forbids only the token this many places before; `None` is any.
        - `site`: The scores before the softmax, or the kernel, `[…, query, key]`; the
            keys may be only the first tokens.
        - `strength`: In [0, 1]. Attention is multiplied by `1 - strength` before it is
            normalised; 1 forbids it.
        - `heads`, `where`: as for `opto.Clamp`.
        """
        select(self, site, strength, heads, where)
        fraction("strength", strength)
        self.queries = check_tokens("queries", queries)
        self.keys = check_tokens("keys", keys)
        if distance is not None:
            distance = whole("distance", distance, 0, "a number of tokens or None")
        if (queries, keys, distance) == ("all", "all", None):
            wanted = "give queries=, keys= or distance="
            raise ValueError(f"Block() of all tokens leaves no attention: {wanted}")
        self.distance = distance

    def needs(self, table: Sites) -> tuple[str, ...]:
        return sites_of(self.queries, self.keys)

    def derive(self, context: RunContext) -> tuple[Edit, ...]:
        edits = []
        for site in self.where.within(context.table.match(self.site)):
            (size, keys), rank = site.shape[-2:], len(site.shape)
            blocked = tokens_of(self.queries, size, context.base)[:, None]
            blocked = blocked & tokens_of(self.keys, size, context.base)[:keys]
            if self.distance is not None:
                blocked = blocked & np.eye(size, keys, k=-self.distance, dtype=bool)
            where = self.where.only(over_rows(blocked, rank))
            edits.append(_Forbid(site.name, where, self.strength))
        return tuple(edits)

    def check(self, table: Sites) -> None:
        sites = table.match(self.site)
        self.where.check(sites)
        check_strength(self.strength)
        check_attention(self, sites, self.rows, self.needs(table), table)
        for site in sites:
            if self.distance is not None and self.distance >= site.shape[-2]:
                raise ValueError(f"distance={self.distance} is too far for {site}")

    def arguments(self) -> dict[str, Any]:
        distance = {} if self.distance is None else {"distance": self.distance}
        tokens = not_all("queries", self.queries) | not_all("keys", self.keys)
        return {**tokens, **distance, **_not_default(self)}


class _Forbid(Edit):
    """Multiplies attention by `1 - amount` before it is normalised."""

    amount: Float[Array, "..."]

    def __init__(self, site: str, where: Where, amount: Array):
        select(self, site, 1.0, None, {})
        self.where, self.amount = where, amount

    def replacement(self, value: Array, site: Site) -> Array:
        if site.rows and site.rows.are == "kernel":
            # The kind of attention decides what an empty row is; over its sum, NaN.
            return value * (1 - self.amount).astype(value.dtype)
        return self._scores(value, site)

    def _scores(self, value: Array, site: Site) -> Array:
        whole = self.amount == 1
        less = jnp.log1p(-jnp.where(whole, 0, self.amount))
        forbidden = jnp.maximum(jnp.finfo(value.dtype).min, _FORBIDDEN)
        new = jnp.where(whole, forbidden, value + less.astype(value.dtype))
        after = self._after(new, value, site)
        # With all keys forbidden, the softmax would attend to all of them equally.
        # Real scores stay above what models mask with, -1e9 or less. Padding saw no key
        # before, and no token sees it.
        before, now = (
            jnp.max(x, -1, keepdims=True) > jnp.maximum(-1e8, forbidden)
            for x in (value, after)
        )
        return jnp.where(whole & before & ~now, jnp.nan, new)

    def _after(self, new: Array, value: Array, site: Site) -> Array:
        mask = self.where.mask(site)
        return new if mask is None else jnp.where(mask, new, value)

    def arguments(self) -> dict[str, Any]:
        return {"amount": self.amount}


def _seen(site: Site) -> str:
    """The site that says which keys each query sees, if the model has it."""
    scope = scope_of(site.name)
    return f"{scope}.seen" if scope else "seen"


# Finite, because infinities give NaN gradients; the softmax gives exactly zero.
_FORBIDDEN = -1e20


def _not_default(edit: Any) -> dict[str, str]:
    return {} if edit.site == edit.default else {"site": edit.site}
