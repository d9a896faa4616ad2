"""Whether a list of edits can apply to a model, and does not contradict itself."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._batched import split
from ._discover import find_sites
from ._edit import AbstractEdit, Edit, several
from ._edits import Clamp, Zero
from ._examples import batch_shape, one_example
from ._record import Request, requested
from ._site import Site, Sites
from ._swept import is_swept
from ._where import holds_tracer, is_concrete
from .graft import Graft, grafted_calls, swapped
from .hints import brief


def check_donors(fn: Any, args: tuple[Any, ...], edits: Sequence[AbstractEdit]) -> None:
    """Checks the edits of grafted models now; while tracing, indices are not known."""
    for donor in grafted_calls(fn, args, edits):
        lead = one_example(donor.fn, donor.args)[1]
        own = split(donor.edits, donor.table, batch_shape(donor.args, lead))[2]
        check_given(own, donor.table, ())
        check_donors(donor.fn, donor.args, own)


def as_edits(edits: Iterable[AbstractEdit]) -> tuple[AbstractEdit, ...]:
    """The edits as a tuple; raises `ValueError` unless all of them are edits."""
    edits = several(edits)
    for edit in edits:
        if any(map(is_swept, jax.tree.leaves(edit, is_leaf=is_swept))):
            raise ValueError(f"{edit!r} is swept: give it to opto.sweep")
    return edits


def check(
    edits: Iterable[AbstractEdit], table: Sites, *, record: Request = ()
) -> tuple[AbstractEdit, ...]:
    """The edits; raises `ValueError` unless they can apply to a model's sites."""
    edits = as_edits(edits)
    if not isinstance(table, Sites):
        raise ValueError(f"table is what opto.sites gives, got {brief(table)}")
    check_given(edits, table, requested(record, table))
    return edits


def check_call(
    fn: Callable[..., Any], *args: Any, edits: Iterable[AbstractEdit]
) -> tuple[AbstractEdit, ...]:
    """The edits; raises `ValueError` unless they can apply to `fn(*args, tap=)`.

    As `check`, and also checks the edits of grafted models. `args` are one example.
    """
    edits = as_edits(edits)
    fn, args, own = swapped(fn, args, edits)
    table = find_sites(fn, *args)
    check_given(own, table, ())
    check_donors(fn, args, own)
    return edits


def check_given(
    edits: Sequence[AbstractEdit], table: Sites, recorded: Collection[str]
) -> None:
    """Raises `ValueError` for edits that cannot apply, or contradict each other."""
    for edit in edits:
        # To bind a method of an Equinox module takes a tenth of a millisecond.
        type(edit).check(edit, table)
    check_together(edits, table, recorded)


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
        seam = owner.replaces_until(table)
        if seam is None:
            continue
        for j, edit in enumerate(edits):
            changed = [order[name] for name in edit.changes(table)]
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
            first = min((order[name] for name in edit.changes(table)), default=-1)
            if first > seam:
                raise ValueError(
                    f"{edit!r} would have no effect: {graft!r}, which comes after it, "
                    "takes these layers from the other model"
                )


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
    if holds_tracer(edit) or edit.strength.ndim:
        return False
    within = all(
        is_concrete(chosen) and chosen.ndim == 2
        for chosen in edit.where.indices.values()
    )
    return within and float(edit.strength) == 1
