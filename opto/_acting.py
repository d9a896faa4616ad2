"""What each edit of a list does at its sites, as far as that is known."""

import dataclasses
from typing import Any

import numpy as np

from ._derived import Derived
from ._edit import Edit
from ._reach import everything, Held, Reach, Reaches
from ._site import Sites
from ._together import changed_sites
from ._where import is_concrete


@dataclasses.dataclass(frozen=True)
class Unknown:
    """Edits whose sites are known but nothing else, such as those of a sweep."""

    edits: tuple[Any, ...]

    def __repr__(self) -> str:
        return "a swept edit"


@dataclasses.dataclass(frozen=True)
class Acting:
    """An edit and what it does at each of its sites.

    `at` is `None` if that is not known. An `idle` edit is off. `follows` are the sites
    that the edit reads in a run under the edits before it.
    """

    edit: Any
    at: dict[str, Reach] | None
    idle: bool = False
    follows: frozenset[str] = frozenset()

    @staticmethod
    def of(edit: Any, table: Sites) -> "Acting":
        if isinstance(edit, Unknown):
            return _unknown(edit, table)
        if not isinstance(edit, Reaches):
            return Acting(edit, None)
        if is_idle(edit):
            return Acting(edit, {}, idle=True)
        strength = getattr(edit, "strength", 1.0)
        whole = not hasattr(strength, "shape") or (
            is_concrete(strength) and bool(np.all(np.asarray(strength) == 1))
        )
        at = {}
        for name in changed_sites(edit, table):
            reach = edit.reach(table[name], table)
            if reach is None:
                return Acting(edit, None)
            if not whole:
                reach = dataclasses.replace(
                    reach, sets=None, makes=_partly(reach, strength)
                )
            at[name] = reach
        return Acting(edit, at, follows=_followed(edit, table))


def _followed(edit: Any, table: Sites) -> frozenset[str]:
    return frozenset(edit.follows(table)) if isinstance(edit, Derived) else frozenset()


def _partly(reach: Reach, strength: Any) -> Any:
    """What known entries become at a strength other than 1: the same, or unknown."""
    # Half of a masked score is masked.
    known = np.asarray(strength) if is_concrete(strength) else np.nan
    some = bool(np.all((known > 0) & (known < 0.99)))
    keeps_masks = some and reach.sets is not None

    def makes(held: Held) -> Held:
        new = reach.makes(held)
        same = (new == held) | (np.isneginf(held) & keeps_masks)
        return np.asarray(np.where(same, held, np.nan))

    return makes


def _unknown(edit: Unknown, table: Sites) -> Acting:
    at: dict[str, Reach] = {}
    follows = frozenset[str]()
    for part in edit.edits:
        acting = Acting.of(part, table)
        if acting.at is None:
            return acting
        follows |= acting.follows
        # The sweep varies the selection, so it may be any entry.
        at |= {n: Reach(everything(table[n])) for n in acting.at}
    return Acting(edit, at, follows=follows)


def is_idle(edit: Any) -> bool:
    """Whether an edit is off: at strength 0, or with a neutral value."""
    strength = getattr(edit, "strength", None)
    if is_concrete(strength) and not np.any(np.asarray(strength)):
        return True
    return isinstance(edit, Edit) and edit.is_neutral()


def is_partial(edit: Any) -> bool:
    """Whether an edit's strength is known and is not 1."""
    strength = getattr(edit, "strength", None)
    return is_concrete(strength) and not np.any(np.asarray(strength) == 1)
