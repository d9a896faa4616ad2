"""Edits from the induction-head papers that replace a whole part of the circuit."""

from collections.abc import Iterable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

import opto
from opto.toolkit import (
    AbstractEdit,
    check_attention,
    check_needs,
    check_strength,
    Chosen,
    Derived,
    Edit,
    Heads,
    is_concrete,
    named,
    number,
    put,
    RunContext,
    select,
    Selection,
    several,
    Site,
    Sites,
    Where,
    whole,
)

from ..roles import LABEL, LABELS, PAIR, QUERY, ROLE


@opto.toolkit.register
class CopyFromPattern(Derived, Selection):
    """Sets the query's logits from one head's scores of the labels in context.

    The logit of a label is the head's score, before the softmax, from the query to that
    label's token. If the label has several tokens, it is the log of the summed
    exponentials of their scores. Labels that are not in the context get -1e9. This is a
    perfect copy of what the head attends to (Singh et al. 2024, section 4). The scores
    are read under the edits that come before this one in the list.
    """

    default: ClassVar[str] = "**.scores"

    logits: str = eqx.field(static=True)
    edits: tuple[AbstractEdit, ...]
    strength: Float[Array, "..."]

    def __init__(
        self,
        *,
        edits: Iterable[AbstractEdit] = (),
        site: str = default,
        logits: str = "logits",
        strength: ArrayLike = 1.0,
        heads: Heads = None,
        **where: Chosen,
    ):
        """**Arguments:**

        - `heads`, `where`: One head, such as `"1:3"`.
        - `edits`: More edits, applied only while the head is read.
        - `site`: The site of the scores before the softmax, `[head, query, key]`.
        - `logits`: The site of the logits, `[seq, label]`.
        - `strength`: As for `opto.Clamp`, for the logits.
        """
        select(self, site, strength, heads, where)
        self.logits = named("logits", logits)
        self.edits = several(edits)

    def needs(self, table: Sites) -> tuple[str, ...]:
        return (ROLE, PAIR, LABELS)

    def derive(self, context: RunContext) -> tuple[Edit, ...]:
        role, pair, labels = (context.base[name] for name in self.needs(context.table))
        row = self._row(context, jnp.argmax(role == QUERY))
        (site,) = context.table.match(self.logits)
        here = labels[pair] == jnp.arange(site.shape[-1])[:, None]
        # [label, key]: the keys are all tokens, or only the first ones.
        here = (here & (role == LABEL))[:, : len(row)]
        present = jnp.any(here, axis=1)
        # The log of an empty sum has no gradient: labels not in the context sum all.
        logits = jax.nn.logsumexp(row, axis=1, where=here | ~present[:, None])
        logits = jnp.where(present, logits, -1e9)
        where = Where({}, (role == QUERY)[:, None])
        values = {self.logits: jnp.broadcast_to(logits, site.shape)}
        return (put(self.logits, values, where, self.strength),)

    def check(self, table: Sites) -> None:
        sites = table.match(self.site)
        self.where.check(sites)
        check_strength(self.strength)
        check_attention(self, sites, ("logits",), self.needs(table), table)
        for edit in self.edits:
            edit.check(table)
        axes = {axis for name in self.where.indices for axis in name.split()}
        axes |= set() if self.where.entries is None else {"mask"}
        if parts := axes - {"layer", "head"}:
            raise ValueError(f"CopyFromPattern reads a whole head: drop {min(parts)}=")
        if len(found := [site.name for site in table.match(self.logits)]) > 1:
            names = ", ".join(found)
            raise ValueError(f"logits={self.logits!r} matches {names}; give one site")
        if not all(map(is_concrete, jax.tree.leaves(self.where))):
            return
        with jax.ensure_compile_time_eval():  # Also inside a `jit`.
            count = sum(self._heads(site) for site in self.where.within(sites))
        if count != 1:
            wanted = "one head, such as heads='1:3'"
            raise ValueError(f"{self!r} reads {wanted}, got {count}")

    def changes(self, table: Sites) -> tuple[str, ...]:
        return tuple(site.name for site in table.match(self.logits))

    def arguments(self) -> dict[str, Any]:
        site = {} if self.site == self.default else {"site": self.site}
        logits = {} if self.logits == "logits" else {"logits": self.logits}
        edits = {"edits": self.edits} if self.edits else {}
        return {**edits, **site, **logits}

    def _heads(self, site: Site) -> int:
        """The number of heads of a site that are selected."""
        mask = self.where.mask(site)
        chosen = np.broadcast_to(True if mask is None else mask, site.shape)
        return int(chosen.any((-2, -1)).sum())

    def _row(self, context: RunContext, query: Array) -> Float[Array, " kv_seq"]:
        """The scores of the query in the selected head."""
        sites = self.where.within(context.table.match(self.site))
        record = context.run(
            edits=(*context.before, *self.edits), record=[site.name for site in sites]
        )
        total = jnp.zeros(sites[0].shape[-1])
        for site in sites:
            mask = self.where.mask(site)
            chosen = record[site.name]
            if mask is not None:
                chosen = jnp.where(mask, chosen, 0)
            total += chosen[:, query].sum(0)
        return total


@opto.toolkit.register
class PerfectPreviousToken(Derived):
    """Makes a layer work as if earlier layers had perfectly copied previous tokens.

    The layer's attention is computed as if each token had the embedding of the token
    before it, except the first token and the query, which keep their own. Its values
    and the residual stream are the plain embeddings; the output of earlier layers is
    left out. This is the "layer 1 clamp" of Singh et al. (2024), who number layers from
    one.
    """

    layer: int = eqx.field(static=True)
    strength: Float[Array, "..."]

    def __init__(self, layer: int = 1, *, strength: ArrayLike = 1.0):
        """**Arguments:**

        - `layer`: The layer that reads the previous tokens, 1 or more.
        - `strength`: As for `opto.Clamp`, for the scores and the stream.
        """
        self.layer = whole("layer", layer, 1, "1 or more, as layer 0 does the copying")
        self.strength = number("strength", strength)

    def needs(self, table: Sites) -> tuple[str, ...]:
        return ("embed", ROLE)

    def derive(self, context: RunContext) -> tuple[Edit, ...]:
        embed, role = context.base["embed"], context.base[ROLE]
        stays = (jnp.arange(len(embed)) == 0) | (role == QUERY)
        shifted = jnp.where(stays[:, None], embed, jnp.roll(embed, 1, axis=0))
        stream, scores = self.sites()
        record = context.run(
            edits=[*context.before, put(stream, {stream: shifted}, Where({}), 1.0)],
            record=[scores],
        )
        values = {stream: embed, scores: record[scores]}
        return tuple(
            put(name, {name: value}, Where({}), self.strength)
            for name, value in values.items()
        )

    def check(self, table: Sites) -> None:
        check_strength(self.strength)
        check_needs(self, self.needs(table), table)
        for name in self.sites():
            table.match(name)

    def changes(self, table: Sites) -> tuple[str, ...]:
        return self.sites()

    def replaces_until(self, table: Sites) -> str | None:
        whole = is_concrete(self.strength) and float(self.strength) == 1
        return self.sites()[0] if whole else None

    def arguments(self) -> dict[str, Any]:
        return {} if self.layer == 1 else {"layer": self.layer}

    def sites(self) -> tuple[str, str]:
        """The sites that it sets: the residual stream and the scores."""
        block = f"blocks.{self.layer}"
        return f"{block}.resid_pre", f"{block}.attn.scores"
