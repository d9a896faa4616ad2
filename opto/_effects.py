"""Whether edits change anything: measured while a program runs, never guessed."""

import dataclasses
import html
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from ._derived import Derived
from ._edit import AbstractEdit, shown
from ._site import Sites


class NoEffectWarning(UserWarning):
    """An edit changed nothing on the given inputs.

    `warnings.simplefilter("error", opto.NoEffectWarning)` makes it an error.
    """


# An edit by its place: `(2,)` is edit 2 of a list, `(2, 0)` the first edit inside it.
Place = tuple[int, ...]


class Change(NamedTuple):
    """What an edit changes at its sites, compared with the same run without it.

    **Fields:**

    - `entries`: How many entries differ.
    - `largest`: The largest absolute difference.
    """

    entries: Array
    largest: Array

    @staticmethod
    def none() -> "Change":
        """No change."""
        return Change(jnp.zeros((), int), jnp.zeros(()))


class LeaveOneOut:
    """What each of a list's edits changes; filled while JAX traces a run.

    **Fields:** `changes`: By place. Edits that make other edits count for these.
    """

    def __init__(self, edits: Sequence[Any]):
        self._places: dict[int, Place] = {}
        for place, edit in placed(edits):
            self._places.setdefault(id(edit), place)
        self.changes: dict[Place, Change] = {}

    def place(self, edit: Any) -> Place | None:
        """The place of an edit; `None` for one that is not the user's."""
        return self._places.get(id(edit))

    def note(self, place: Place, value: Array, without: Array) -> None:
        """Notes a site's value under all edits, and under all but one."""
        if not value.size:
            return
        differs = value != without
        if jnp.issubdtype(value.dtype, jnp.inexact):
            differs &= ~(jnp.isnan(value) & jnp.isnan(without))
            size = jnp.abs(value - without)
        else:
            size = jnp.abs(value.astype(float) - without.astype(float))
        # Infinity minus infinity is NaN.
        size = jnp.max(jnp.where(differs, size, 0)).astype(float)
        new = Change(jnp.sum(differs), size)
        if before := self.changes.get(place):
            new = Change(
                before.entries + new.entries, jnp.maximum(before.largest, size)
            )
        self.changes[place] = new


def placed(edits: Sequence[Any], outer: Place = ()) -> Iterator[tuple[Place, Any]]:
    """The edits of a list with their places, and those inside them (of a graft)."""
    for i, edit in enumerate(edits):
        place = (*outer, i)
        yield place, edit
        if isinstance(edit, Derived):
            yield from placed(getattr(edit, "edits", ()), place)


def warn_without_effect(
    edits: Sequence[Any],
    entries: Mapping[Place, Any],
    table: Sites,
    recorded: Sequence[str] = (),
    when: str = "on these inputs",
    stacklevel: int = 3,
) -> None:
    """Warns of each edit that changed nothing, or whose change nothing reads.

    Values that are not known while Python runs (within your own `jit`) are ignored.

    **Arguments:**

    - `entries`: By place, how many entries an edit changed; arrays of any shape.
    - `recorded`: The recorded sites: a record reads them.
    """
    for place, edit in placed(edits):
        count = entries.get(place)
        if count is None or isinstance(count, Tracer):
            continue
        zero = _is_zero(count)
        if not zero and not table.unread:
            continue
        at = _where(edit, table) if len(place) == 1 else ()
        if zero:
            there = f" at {', '.join(at[:3])}{' …' * (len(at) > 3)}" if at else ""
            message = f"{shown(edit, 200)} changes nothing{there} {when}"
        elif at and table.unread.issuperset(at) and not {*recorded} & {*at}:
            message = (
                f"{shown(edit, 200)} has no effect: the model does not use what its "
                f"tap returns at {at[0]} (write `x = tap('name', x, …)`)"
            )
        else:
            continue
        warnings.warn(message, NoEffectWarning, stacklevel=stacklevel)


def _is_zero(count: Any) -> bool:
    """Whether there are examples, and none of them has an entry that changes."""
    return np.size(count) > 0 and not np.any(np.asarray(count))


def _where(edit: Any, table: Sites) -> tuple[str, ...]:
    edit = getattr(edit, "edit", edit)  # Of a swept one.
    return edit.changes(table) if isinstance(edit, AbstractEdit) else ()


@dataclasses.dataclass(frozen=True)
class Effect:
    """What one edit of a list does; see `opto.effects`.

    **Fields:**

    - `edit`: The edit.
    - `entries`: How many entries of its sites differ from what they would be without
        it, over all examples.
    - `largest`: The largest of these differences.
    - `outputs`: The largest difference of the model's outputs without this edit.
    """

    edit: Any
    entries: int
    largest: float
    outputs: float


class EffectTable(tuple[Effect, ...]):
    """A table with an `Effect` for each edit; see `opto.effects`."""

    def _rows(self) -> list[tuple[str, ...]]:
        head = ("edit", "entries changed", "largest change", "outputs change by")
        return [
            head,
            *(
                (shown(x.edit), str(x.entries), f"{x.largest:.3g}", f"{x.outputs:.3g}")
                for x in self
            ),
        ]

    def __repr__(self) -> str:
        rows = self._rows()
        width = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(
                [row[0].ljust(width[0])]
                + [x.rjust(w) for x, w in zip(row[1:], width[1:], strict=True)]
            )
            for row in rows
        )

    def _repr_html_(self) -> str:
        cells = [[html.escape(cell) for cell in row] for row in self._rows()]
        lines = ["".join(f"<td>{cell}</td>" for cell in row) for row in cells]
        return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def largest_difference(one: Any, other: Any) -> float:
    """The largest absolute difference of the arrays in two trees; NaN equals NaN."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    sizes = [_difference(np.asarray(a), np.asarray(b)) for a, b in pairs]
    return max(sizes, default=0.0)


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    same = (a == b) | ((a != a) & (b != b))
    wide = complex if np.iscomplexobj(a) else float
    with np.errstate(invalid="ignore"):
        return float(
            np.abs(a.astype(wide) - b.astype(wide)).max(initial=0, where=~same)
        )
