"""Finds edits that can change nothing, before anything is computed.

The changes of an edit are followed from site to site, entry by entry. `Flow` says which
site feeds which, and along which axes. At sites with the usual names of attention, it
also matters which keys a query sees. If something is not known, an edit counts as
having an effect.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ._acting import Acting
from ._edit import AbstractEdit, shown
from ._followed import Followed
from ._observed import Observed, OUTPUTS
from ._reach import Entries, everything, Reach
from ._site import Sites


def check_effects(
    edits: Sequence[AbstractEdit], table: Sites, seen: Observed = OUTPUTS
) -> None:
    """Raises `ValueError` for an edit that changes none of the values that are seen."""
    for i, why in without_effect(edits, table, seen).items():
        raise ValueError(no_effect(edits[i], why))


def no_effect(edit: Any, why: str) -> str:
    """The message about an edit without effect."""
    return f"{shown(edit, 200)} changes nothing: {why}"


def with_effect(
    given: Sequence[AbstractEdit],
    added: Sequence[AbstractEdit],
    table: Sites,
    seen: Observed = OUTPUTS,
) -> tuple[AbstractEdit, ...]:
    """The `given` edits that still change something when the `added` ones follow."""
    left = list(given)
    # One at a time: if two edits do the same, one has to stay.
    while wrong := [
        i for i in without_effect([*left, *added], table, seen) if i < len(left)
    ]:
        del left[wrong[0]]
    return tuple(left)


def without_effect(
    edits: Sequence[Any], table: Sites, seen: Observed
) -> dict[int, str]:
    """Why each edit that changes nothing does so, and what to do, by its place."""
    every = Followed(tuple(Acting.of(edit, table) for edit in edits), table, seen)
    found = {i: every.why_nothing(i) for i in range(len(edits))}
    return {i: why for i, why in found.items() if why}


def has_path(
    table: Sites,
    senders: Mapping[str, Entries],
    receivers: Mapping[str, Entries],
    held: Iterable[str],
) -> bool:
    """Whether a change at entries of the senders reaches entries of the receivers.

    **Arguments:** `held`: Sites whose values are frozen.
    """
    if table.flow is None:
        return True
    full = {name: everything(table[name]) for name in held}
    still = {n: Reach(x, lambda x=x: x) for n, x in full.items()}
    sent = {name: Reach(entries) for name, entries in senders.items()}
    edits = Acting(None, still), Acting(None, sent)
    changed, _ = Followed(edits, table, Observed(outputs=False)).changed(1)
    return any((changed.get(n, np.False_) & x).any() for n, x in receivers.items())
