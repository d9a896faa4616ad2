"""Several edits in place of one, of any kinds: what `opto.sweep` runs over."""

from collections.abc import Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from ._edit import AbstractEdit
from ._site import Sites
from ._swept import AbstractSwept, Expanded
from ._where import is_concrete


class Stacked(AbstractSwept):
    """Several edits to sweep over; see `opto.stack`."""

    edits: tuple[AbstractEdit, ...]

    def check(self, table: Sites) -> None:
        # A point of a sweep may be at strength 0.
        for edit in self.edits:
            strength = getattr(edit, "strength", None)
            if is_concrete(strength) and not np.any(np.asarray(strength)):
                edit = eqx.tree_at(lambda e: e.strength, edit, jnp.ones(()))
            edit.check(table)

    def expand(self, table: Sites) -> Expanded:
        count = len(self.edits)
        exists = np.ones(count, bool)
        if len({_form(edit) for edit in self.edits}) > 1:
            value = OneOf(self.edits, jnp.arange(count))
            mapped = jax.tree.map(lambda _: False, value)
            mapped = eqx.tree_at(lambda e: e.index, mapped, True)
            return Expanded(value, mapped, (count,), exists)

        def join(*xs):
            return jnp.stack(xs) if eqx.is_array(xs[0]) else xs[0]

        value = jax.tree.map(join, *self.edits)
        return Expanded(value, jax.tree.map(eqx.is_array, value), (count,), exists)

    def __repr__(self) -> str:
        return f"stack({list(self.edits)!r})"


def stack(edits: Sequence[AbstractEdit]) -> Stacked:
    """Several edits, of any kinds and sites, for `opto.sweep` to sweep over.

    If all of them differ only in arrays, each run computes one edit. Otherwise each run
    computes all edits, with all but one at strength 0.

    **Raises:** `ValueError` if edits that differ in more than arrays have no strength.
    """
    edits = tuple(edits) if isinstance(edits, Iterable) else ()
    if not edits or not all(isinstance(edit, AbstractEdit) for edit in edits):
        raise ValueError("stack() takes a list of at least one opto.toolkit.Edit")
    if len({_form(edit) for edit in edits}) > 1:
        for edit in edits:
            if not hasattr(edit, "strength"):
                raise ValueError(f"{edit!r} has no strength, so it cannot be off")
    return Stacked(edits)


def _form(edit: AbstractEdit) -> tuple[Any, ...]:
    leaves, structure = jax.tree.flatten(edit)
    return structure, tuple(x.shape if eqx.is_array(x) else x for x in leaves)


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
