"""Edits seen together: those that contradict each other, and one out of several."""

from collections.abc import Collection, Sequence
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from ._edit import AbstractEdit, Edit, Selection
from ._edits import Clamp, Zero
from ._site import Site, Sites
from ._where import is_concrete
from .graft import Graft


class OneOf(AbstractEdit):
    """One of several edits, chosen by an array, so that one program serves them all."""

    edits: tuple[AbstractEdit, ...]
    index: Int[Array, "..."]

    def check(self, table: Sites) -> None:
        for edit in self.edits:
            edit.check(table)

    def arguments(self) -> dict[str, Any]:
        return {"edits": self.edits, "index": self.index}


def alternatives(edit: AbstractEdit) -> tuple[AbstractEdit, ...]:
    """The edit itself; for `OneOf` its edits, with all but the chosen at strength 0."""
    if not isinstance(edit, OneOf):
        return (edit,)
    gates = [edit.index == i for i in range(len(edit.edits))]
    return tuple(
        eqx.tree_at(lambda e: e.strength, e, getattr(e, "strength") * gate)  # noqa: B009
        for e, gate in zip(edit.edits, gates, strict=True)
    )


@runtime_checkable
class Changes(Protocol):
    """An edit that says which sites it changes, if these are not those of `site`."""

    def changes(self, table: Sites) -> tuple[str, ...]: ...


@runtime_checkable
class Replaces(Protocol):
    """An edit that may replace the first part of the run.

    `replaces_until` is the last site of that part, `None` if nothing is replaced.
    """

    def replaces_until(self, table: Sites) -> str | None: ...


def check_together(
    edits: Sequence[AbstractEdit], table: Sites, recorded: Collection[str] = ()
) -> None:
    """Raises `ValueError` for edits that contradict, or that a graft makes void.

    **Arguments:** `recorded`: The recorded sites. The layers that a graft replaces are
        still computed, so an edit there may change what is recorded.
    """
    if len(edits) < 2:
        return
    _check_clamps(edits, table)
    check_before_graft(edits, table)
    order = {name: i for i, name in enumerate(table)}
    for i, owner in enumerate(edits):
        seam = owner.replaces_until(table) if isinstance(owner, Replaces) else None
        if seam is None:
            continue
        for j, edit in enumerate(edits):
            changed = [order[name] for name in changed_sites(edit, table)]
            last = max(changed, default=None)
            if j == i or last is None:
                continue
            if any(min(changed) <= order[name] < order[seam] for name in recorded):
                continue
            if last < order[seam] or (last == order[seam] and j < i):
                raise ValueError(
                    f"{edit!r} would have no effect: {owner!r} replaces what it "
                    "changes; give edits of the other model to Graft(edits=[…])"
                )


def check_before_graft(edits: Sequence[AbstractEdit], table: Sites) -> None:
    """Raises `ValueError` for edits of layers that a later graft does not use."""
    order = {name: i for i, name in enumerate(table)}
    for i, graft in enumerate(edits):
        if not isinstance(graft, Graft) or graft.from_ is None:
            continue
        seam = order[graft.seam(table)]
        for edit in edits[:i]:
            first = min(
                (order[name] for name in changed_sites(edit, table)), default=-1
            )
            if first > seam:
                raise ValueError(
                    f"{edit!r} would have no effect: {graft!r}, which comes after it, "
                    "takes these layers from the other model"
                )


def changed_sites(edit: Any, table: Sites) -> tuple[str, ...]:
    """The sites that an edit changes; none if it does not say."""
    if isinstance(edit, Changes):
        return edit.changes(table)
    if isinstance(edit, Selection):
        sites = edit.where.within(table.match(edit.site))
        return tuple(site.name for site in sites)
    return ()


def _check_clamps(edits: Sequence[AbstractEdit], table: Sites) -> None:
    """Raises `ValueError` if an entry is clamped to two values."""
    by_site: dict[str, list[Edit]] = {}
    for edit in edits:
        if isinstance(edit, Clamp | Zero) and _is_full(edit):
            for site in table.match(edit.site):
                by_site.setdefault(site.name, []).append(edit)
    for name, clamps in by_site.items():
        if len(clamps) > 1 and not all(isinstance(e, Zero) for e in clamps):
            with jax.ensure_compile_time_eval():  # Also within a `jit`.
                _check_entries(table[name], clamps)


def _check_entries(site: Site, clamps: Sequence[Edit]) -> None:
    owner = np.full(site.shape, -1)
    values = np.zeros(site.shape, site.dtype)
    for i, edit in enumerate(clamps):
        mask = edit.where.mask(site)
        mask = np.broadcast_to(True if mask is None else np.asarray(mask), site.shape)
        new = edit.replacement(jnp.zeros(site.shape, site.dtype), site)
        new = np.broadcast_to(np.asarray(new).astype(site.dtype), site.shape)
        clash = mask & (owner >= 0) & (values != new)
        if clash.any():
            entry = tuple(int(k) for k in np.argwhere(clash)[0])
            where = ", ".join(f"{a}={k}" for a, k in zip(site.axes, entry, strict=True))
            raise ValueError(
                f"{clamps[owner[entry]]!r} and {edit!r} contradict: both set {where} "
                f"of {site}"
            )
        owner[mask], values[mask] = i, new[mask]


def _is_full(edit: Edit) -> bool:
    """Whether an edit sets entries at strength 1, to values that are known now."""
    leaves = [x for x in jax.tree.leaves(edit) if eqx.is_array(x)]
    if not all(is_concrete(x) for x in leaves) or edit.strength.ndim:
        return False
    within = all(chosen.ndim == 2 for chosen in edit.where.indices.values())
    return within and float(edit.strength) == 1
