"""Edits that become edits of sites once the inputs are known."""

import abc
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float

from ._edit import AbstractEdit, check_strength, Edit, Heads, select, Selection
from ._record import Record
from ._reference import Patch, Values
from ._site import Site, Sites
from ._tap import RowsAre
from ._tokens import are_named_at
from ._where import Chosen, Where


@dataclasses.dataclass(frozen=True)
class RunContext:
    """What a `Derived` edit may look at, for one example.

    **Fields:**

    - `table`: The model's sites.
    - `base`: The values that it needs, from the run without any edit. All edits that
        need something share that one run.
    - `before`: The edits before it in the list.
    """

    table: Sites
    base: Mapping[str, Array]
    before: tuple[AbstractEdit, ...]
    _run: Callable[..., Record]
    _require: Callable[[Array, str], None]

    def run(
        self,
        *,
        edits: Sequence[AbstractEdit] = (),
        record: Iterable[str] = (),
        model: Any = None,
    ) -> Record:
        """Another run on the same inputs, of this model or of another one."""
        return self._run(edits=tuple(edits), record=tuple(record), model=model)

    def require(self, condition: Bool[Array, ""], message: str) -> None:
        """Makes `opto.run` raise `ValueError` if a condition on the inputs is false.

        Nothing is raised where values are not known while Python runs (within your own
        `jit`, in training). Let the edit give NaN there.
        """
        self._require(condition, message)


class Derived(AbstractEdit):
    """An edit whose values depend on the inputs, or on other runs on them.

    A subclass says which sites of the unedited run it reads (`needs`). From their
    values it makes edits of sites (`derive`), which take its place in the list.
    """

    @abc.abstractmethod
    def needs(self, table: Sites) -> tuple[str, ...]:
        """The sites, names or globs, whose unedited values this edit reads."""

    @abc.abstractmethod
    def derive(self, context: RunContext) -> tuple[Edit, ...]:
        """The edits of sites that take this one's place; runs while JAX traces."""


class Freeze(Derived, Selection):
    """Holds entries at the values they have without any edit.

    `[Freeze("blocks.*.attn.pattern"), Zero("blocks.0.attn.z", head=1)]` ablates a head
    but lets everything attend as if it were there. Gradients flow through the frozen
    values into the weights they come from, as in Singh et al. (2024), unless
    `stop_gradient` is set.
    """

    stop_gradient: bool = eqx.field(static=True)
    strength: Float[Array, "..."]

    def __init__(
        self,
        site: str,
        *,
        stop_gradient: bool = False,
        strength: ArrayLike = 1.0,
        heads: Heads = None,
        **where: Chosen,
    ):
        """**Arguments:**

        - `stop_gradient`: Whether gradients take the frozen values as constants.
        - `site`, `strength`, `heads`, `where`: as for `opto.Clamp`.
        """
        select(self, site, strength, heads, where)
        self.stop_gradient = stop_gradient

    def needs(self, table: Sites) -> tuple[str, ...]:
        return (self.site,)

    def derive(self, context: RunContext) -> tuple[Edit, ...]:
        values = {s.name: context.base[s.name] for s in context.table.match(self.site)}
        if self.stop_gradient:
            values = {name: stopped(x) for name, x in values.items()}
        return (put(self.site, values, self.where, self.strength),)

    def check(self, table: Sites) -> None:
        self.where.check(table.match(self.site))
        check_strength(self.strength)

    def arguments(self) -> dict[str, Any]:
        stop = {"stop_gradient": True} if self.stop_gradient else {}
        return {"site": self.site, **stop}


def put(
    site: str, values: Mapping[str, Array], where: Where, strength: ArrayLike
) -> Patch:
    """A `Patch` with a selection that was made before."""
    # The values come afterwards: `Patch` refuses NaN, which marks impossible patterns.
    patch = Patch(site, dict.fromkeys(values, 0), strength=strength)
    new = where, Values(dict(values))
    return eqx.tree_at(lambda edit: (edit.where, edit.values), patch, new)


def stopped(x: Array) -> Array:
    """The same value, which gradients take as a constant."""
    return jax.lax.stop_gradient(x) if eqx.is_inexact_array(x) else x


def check_needs(edit: AbstractEdit, needs: Iterable[str], table: Sites) -> None:
    """Raises `ValueError` unless the model has the sites that an edit reads."""
    missing = [name for name in needs if name not in table]
    if missing:
        raise ValueError(
            f"{edit!r} needs the sites {', '.join(missing)}, which this model does "
            "not have"
        )


def check_attention(
    edit: AbstractEdit,
    sites: Iterable[Site],
    wanted: Sequence[RowsAre],
    needs: Iterable[str],
    table: Sites,
) -> None:
    """Raises `ValueError` unless sites hold attention whose rows are as `wanted`.

    Attention is `[…, query, key]`, from each token to all tokens or to the first ones.
    """
    for site in sites:
        *_, queries, keys = (0, 0, *site.shape)
        named = site.rows is not None or site.axes[-1:] == ("kv_seq",)
        if len(site.shape) < 2 or keys > queries or not (named or keys == queries):
            raise ValueError(
                f"{edit!r} is for attention from each token to all tokens or to the "
                f"first ones, got {site}"
            )
        if site.rows and site.rows.are not in wanted:
            raise ValueError(
                f"{edit!r} is for rows that are {' or '.join(map(repr, wanted))}; at "
                f"{site.name!r} {site.rows.of} has {site.rows.are!r}"
            )
    check_needs(edit, needs, table)
    for name in filter(are_named_at, needs):
        for site in sites:
            if table[name].shape != site.shape[-2:-1]:
                raise ValueError(
                    f"{edit!r} needs a site that says what each token of {site} is, "
                    f"got {table[name]}"
                )


def over_rows(values: Any, rank: int, xp: Any = jnp) -> Any:
    """[query, key] with axes of length one in front, for sites with more axes."""
    return xp.reshape(values, (1,) * (rank - values.ndim) + values.shape)
