"""What an edit does to the entries of a site, as far as that is known before a run."""

import dataclasses
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from ._site import Site, Sites
from ._where import is_concrete, Where


# With as many axes as the site, each in full or of length one.
Entries = Bool[np.ndarray, "..."]
# What entries hold: NaN if it is not known, minus infinity for a masked score.
Held = Float[np.ndarray, "..."]


# Models mask scores with numbers such as -1e20. Adding less than this, or dividing by
# less than this, does not unmask such a score.
MASKING = 1e10


def unknown(held: Held) -> Held:
    """NaN for all entries: nothing is known of them."""
    return np.full_like(held, np.nan)


@dataclasses.dataclass(frozen=True)
class Reach:
    """What an edit at full strength does to the entries of a site.

    **Fields:**

    - `may`: The entries that it may change.
    - `sets`: The entries whose new value depends neither on their old value nor on
        other edits; a function, because it may take time. `None` is no entry.
    - `makes`: Takes what is known of the entries' values before the edit, and gives
        what is known of them after it.
    """

    may: Entries
    sets: Callable[[], Entries] | None = None
    makes: Callable[[Held], Held] = unknown


@runtime_checkable
class Reaches(Protocol):
    """An edit that says what it does to the entries of a site; `None`: not known."""

    def reach(self, site: Site, table: Sites) -> Reach | None: ...


def everything(site: Site) -> Entries:
    """All entries of a site."""
    return np.ones((1,) * len(site.shape), bool)


def selected(where: Where, site: Site) -> Entries:
    """The entries that a selection may contain: all, if its indices are not known."""
    entries = where.entries_at(site)
    return everything(site) if entries is None else entries


def setting(where: Where, site: Site, value: np.ndarray | None = None) -> Reach:
    """The reach of an edit that sets all it selects; `value` broadcasts to the site."""
    entries = where.entries_at(site)
    if entries is None:
        return Reach(selected(where, site))

    def makes(held: Held) -> Held:
        if value is None or np.iscomplexobj(value):
            return unknown(held)
        with np.errstate(all="ignore"):
            cast = np.asarray(value).astype(site.dtype).astype(float)
        return np.array(
            np.broadcast_to(cast, np.broadcast_shapes(cast.shape, held.shape))
        )

    return Reach(entries, lambda: entries, makes)


def held_value(value: object) -> np.ndarray | None:
    """The array if its entries are known now, else `None`."""
    return np.asarray(value) if is_concrete(value) else None
