"""Finds swept edits that change nothing at any point of their sweep."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ._acting import is_idle, Unknown
from ._each import Each
from ._edit import AbstractEdit, shown
from ._effects import no_effect, without_effect
from ._grafted import grafted_models
from ._observed import Observed, OUTPUTS
from ._reference import split
from ._run import batch_shape
from ._site import one_example, Sites
from ._together import check_together, OneOf


# A grid with more points than this is not checked.
_MOST = 256


def check_all_effects(
    model: Callable[..., Any],
    inputs: tuple[Any, ...],
    edits: Sequence[Any],
    table: Sites,
    seen: Observed = OUTPUTS,
) -> None:
    """Raises `ValueError` for edits that change nothing at any point of their sweep.

    Edits of grafted models are checked too.
    """
    for donor in grafted_models(model, inputs, edits, table):
        check_all_effects(donor.fn, donor.args, donor.edits, donor.table, donor.seen)
    batch = batch_shape(inputs, one_example(model, inputs)[1])
    _check_swept(split(edits, table, batch)[2], table, seen)


def _check_swept(edits: Sequence[Any], table: Sites, seen: Observed) -> None:
    """Raises `ValueError` for an edit that changes nothing at any point of a sweep.

    A point at strength 0 does not count: it is meant to have no effect. An edit that
    changes nothing at only some points is allowed. Each swept edit is checked at its
    points; of the other swept edits, only the sites are known meanwhile.
    """
    known = [_known(edit) for edit in edits]
    swept = [k for k, edit in enumerate(edits) if points_of(edit, table) is not None]
    for k in swept or [-1]:
        points = points_of(edits[k], table) if swept else [None]
        why, on = dict[int, str](), False
        candidates = {*range(len(edits))}
        for point in points or []:
            on |= point is not None and not is_idle(point)
            there = [point if i == k else edit for i, edit in enumerate(known)]
            wrong = _wrong(there, table, seen, edits, k)
            candidates &= wrong.keys() | ({k} if is_idle(point) else set())
            why |= wrong
            if not candidates:
                break
        for i in sorted(candidates & why.keys()):
            if i != k or on:
                raise ValueError(why[i])


def _wrong(
    edits: list[Any], table: Sites, seen: Observed, given: Sequence[Any], k: int
) -> dict[int, str]:
    """By its place, the message about an edit without effect or in contradiction.

    **Arguments:** `given`: The edits as the user gave them; the one at `k` is swept.
    """
    found = without_effect(edits, table, seen)
    what = {i: no_effect(given[i], why) for i, why in found.items()}
    try:
        known = [edit for edit in edits if not isinstance(edit, Unknown)]
        check_together(known, table, seen.recorded)
    except ValueError as error:
        if k >= 0:
            what.setdefault(k, f"{shown(given[k])}, at all its points: {error}")
    return what


def points_of(edit: Any, table: Sites) -> list[AbstractEdit] | None:
    """The edits of a sweep; `None` if only a part of the edit is swept, or nothing."""
    if isinstance(edit, AbstractEdit):
        return None
    expanded = edit.expand(table)
    if not isinstance(expanded.value, AbstractEdit):
        return None
    if isinstance(expanded.value, OneOf):
        return list(expanded.value.edits)
    there = np.flatnonzero(expanded.exists)
    return [expanded.at(int(i)) for i in there] if len(there) <= _MOST else []


def _known(edit: Any) -> Any:
    """The edit, or `Unknown` if it is swept or has a swept part."""
    if isinstance(edit, Each):
        return Unknown((edit.edit,))
    if not isinstance(edit, AbstractEdit):
        return Unknown(tuple(edit.edits))
    return Unknown((edit,)) if _has_swept(edit) else edit


def _has_swept(edit: AbstractEdit) -> bool:
    is_swept = lambda x: hasattr(x, "expand")
    return any(map(is_swept, jax.tree.leaves(edit, is_leaf=is_swept)))
