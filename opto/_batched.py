"""What edits hold of single examples: values and indices with the batch's axes."""

import warnings
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ._edit import Selection
from ._per_example import PerExample
from ._reference import Patch, Values
from ._site import Sites
from ._where import axis_size, is_concrete, Where


def split(edits: Any, table: Sites, batch: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Separates the values of single examples from what holds for all examples.

    Returns the arrays to map along the batch axes, the rest, and the edits as one
    example sees them, with shapes in place of those arrays.

    **Raises:** `ValueError` if there are not as many values as examples.
    """

    def decide(node: Any) -> Any:
        if isinstance(node, PerExample):
            _check_batch(node, batch)
            return eqx.tree_at(lambda x: x.index, node, True)
        if not isinstance(node, Values):
            return False
        along = {k: _along(k, x, table, batch) for k, x in node.arrays.items()}
        return eqx.tree_at(lambda v: v.arrays, node, along)

    _check_selections(edits, table, batch)
    is_mapped = lambda x: isinstance(x, Values | PerExample)
    if not any(map(is_mapped, jax.tree.leaves(edits, is_leaf=is_mapped))):
        return None, edits, edits
    spec = jax.tree.map(decide, edits, is_leaf=is_mapped)
    if not any(jax.tree.leaves(spec)):
        return None, edits, edits
    mapped, rest = eqx.partition(edits, spec)
    lead = len(batch)
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape[lead:], x.dtype), mapped
    )
    return mapped, rest, eqx.combine(shapes, rest)


def _check_batch(chosen: PerExample, batch: tuple[int, ...]) -> None:
    got = chosen.index.shape
    if not batch or got[: len(batch)] != batch:
        what = f"inputs have batch shape {batch}" if batch else "input is one example"
        raise ValueError(f"PerExample has indices of shape {got}, but the {what}")


def _check_selections(edits: Any, table: Sites, batch: tuple[int, ...]) -> None:
    """Checks indices of each example now; warns of a list that may be meant as such."""
    is_selection = lambda x: isinstance(x, Selection)
    for edit in filter(is_selection, jax.tree.leaves(edits, is_leaf=is_selection)):
        chosen: Any = edit.where.indices.get("seq")
        if isinstance(edit, Patch) and differ(edit.source):
            edit.check_source(table)
        if differ(edit.where):
            edit.where.check(table.match(edit.site))
        elif is_concrete(chosen) and len(batch) == 1 and len(chosen) == batch[0] > 1:
            positions = np.asarray(chosen).ravel()
            sizes = {axis_size("seq", site) for site in table.match(edit.site)}
            if any((np.diff(positions % size) <= 0).any() for size in sizes):
                given = positions.tolist()
                means = f"pos={given} selects all of them in every example"
                way = f"{means}; for one of each, write opto.PerExample({given})"
                warnings.warn(way, stacklevel=5)


def differ(where: Where) -> bool:
    """Whether a selection has indices of each example."""
    return any(isinstance(x, PerExample) for x in where.indices.values())


def _along(name: str, x: Any, table: Sites, batch: tuple[int, ...]) -> bool:
    if not batch or name not in table:
        return False
    if x.ndim != len(table[name].shape) + len(batch):
        return False
    if x.shape[: len(batch)] != batch:
        got, wanted = x.shape[: len(batch)], batch
        raise ValueError(
            f"the values at {name!r} have batch shape {got}, but the inputs have batch "
            f"shape {wanted}"
        )
    return True
