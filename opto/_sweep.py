"""Many edits in one compiled call."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Shaped

from ._batched import split
from ._check_edits import check_together
from ._checks import is_metric, whole
from ._discover import known_sites
from ._edit import AbstractEdit, several
from ._effects import Place, warn_without_effect
from ._examples import batch_shape, one_example
from ._run import ran_with
from ._site import Sites
from ._stack import Stacked
from ._swept import Each, is_swept
from .graft import Graft, grafted_calls, of_model, swapped


Swept = AbstractEdit | Each | Stacked


def sweep(
    metric: Callable[..., Array],
    model: Callable[..., Any],
    *inputs: Any,
    edits: Swept | Sequence[Swept],
    chunk: int | None = None,
) -> Array:
    """A metric under each of many edits, in one compiled call.

    ```python
    heads = opto.Zero("blocks.*.attn.z").each("layer", "head")
    effect = opto.sweep(accuracy, model, examples, labels, edits=heads)  # [layer, head]
    ```

    **Arguments:**

    - `metric`: `metric(outputs, *inputs)`, an array of any shape; runs compiled.
    - `model`, `inputs`: As for `opto.run`.
    - `edits`: Edits in the order they apply. Those made with `each` or `stack` are
        swept; several of them give every combination. They may be inside other edits,
        such as the senders of `opto.patching.PathPatch`.
    - `chunk`: How many edits run side by side; the chunks run one after the other.
        `None` runs all at once. With few, large models are faster and need less memory.

    **Returns:**

    The metric with the sweep's axes in front. Points of a grid that do not exist (head
    7 of a layer that has four) are NaN.

    **Raises:** `ValueError` as `opto.run`, and for a `chunk` that is not positive.

    **Warns:** `NoEffectWarning` for an edit that changes no entry of its sites at any
    point of the sweep.
    """
    is_metric(metric)
    if chunk is not None:
        chunk = whole("chunk", chunk, 1, "a positive number of edits or None")
    model, inputs, edits = unswapped(model, inputs, edits)
    table = checked_table(model, inputs, edits)
    found = _combined(model, inputs, edits, table)
    if not found.axes:
        raise ValueError("no edit is swept: make one with .each(...) or opto.stack")
    values, entries = _sweep(metric, model, inputs, found, chunk)
    warn_without_effect(edits, found.existing(entries), table, when="at any point")
    return found.laid_out(values)


class Combinations(eqx.Module):
    """Every combination of swept edits, as one long axis; see `combinations`.

    **Attributes:**

    - `moving`: The arrays that differ between combinations, with that axis in front;
        `at` takes those of one combination and gives its edits.
    - `axes`, `shape`: The names and lengths of the sweep's axes, `("layer", "head")` of
        `each` and `("edit",)` of `stack`; empty if nothing is swept.
    """

    moving: list[Any]
    axes: tuple[str, ...] = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    _still: list[Any]
    _rest: list[Any]
    _structure: Any = eqx.field(static=True)
    _exists: tuple[bool, ...] = eqx.field(static=True)

    def at(self, moving: list[Any]) -> tuple[AbstractEdit, ...]:
        """The edits of one combination, in the order of the list."""
        now = iter(eqx.combine(moving, self._still))
        filled = [next(now) if leaf is None else leaf for leaf in self._rest]
        return jax.tree.unflatten(self._structure, filled)

    def existing(self, values: Any) -> Any:
        """The values of the combinations that exist."""
        exists = np.array(self._exists, bool)
        return jax.tree.map(lambda x: x if isinstance(x, Tracer) else x[exists], values)

    def laid_out(self, values: Shaped[Array, "combination ..."]) -> Array:
        """Lays out values of the combinations on the sweep's axes; NaN if missing."""
        if not all(self._exists):
            exists = np.reshape(self._exists, (-1, *[1] * (values.ndim - 1)))
            values = jnp.where(exists, values, jnp.nan)
        return values.reshape(*self.shape, *values.shape[1:])


def combinations(
    model: Callable[..., Any], inputs: tuple[Any, ...], edits: Sequence[Swept]
) -> Combinations:
    """The combinations of swept edits, for your own `jax.vmap` or `jax.lax.map`.

    **Arguments:** As for `opto.sweep`.

    **Raises:** `ValueError` for edits that cannot apply.
    """
    table = checked_table(model, inputs, edits)
    return _combined(model, inputs, edits, table)


def _combined(
    model: Callable[..., Any],
    inputs: tuple[Any, ...],
    edits: Sequence[Swept],
    table: Sites,
) -> Combinations:
    leaves, structure = flat(edits)
    pairs = moved(model, inputs, edits, table)
    found = [leaf.expand(there) for leaf, there in pairs]
    counts = [math.prod(part.shape) for part in found]
    picks = np.indices(counts).reshape(len(counts), math.prod(counts))
    exists = np.ones(picks.shape[1], bool)
    moving, still = [], []
    for part, pick in zip(found, picks, strict=True):
        arrays, fixed = eqx.partition(part.value, part.mapped)
        moving.append(jax.tree.map(lambda x, pick=pick: x[pick], arrays))
        still.append(fixed)
        exists &= part.exists[pick]
    return Combinations(
        moving,
        tuple(name for leaf, _ in pairs for name in _axes_of(leaf)),
        tuple(itertools.chain(*(part.shape for part in found))),
        still,
        [None if is_swept(leaf) else leaf for leaf in leaves],
        structure,
        tuple(exists.tolist()),
    )


def _axes_of(leaf: Each | Stacked) -> tuple[str, ...]:
    return leaf.axes if isinstance(leaf, Each) else ("edit",)


def unswapped(
    model: Callable[..., Any], inputs: tuple[Any, ...], edits: Any
) -> tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]:
    """The model whose sites the swept edits select, with its inputs and edits.

    **Raises:** `ValueError` for swept edits before a graft of the last layers.
    """
    edits = several(edits if isinstance(edits, Iterable) else (edits,))
    for i, edit in enumerate(edits):
        last = isinstance(edit, Graft) and edit.from_ is not None
        if last and any(map(is_swept, flat(edits[:i])[0])):
            raise ValueError(
                f"swept edits cannot come before {edit!r}: instead run its model, with "
                "Graft(this model, until=…, edits=[the swept edits])"
            )
    return swapped(model, inputs, edits)


def moved(
    model: Callable[..., Any],
    inputs: tuple[Any, ...],
    edits: Sequence[Any],
    table: Sites,
) -> list[tuple[Each | Stacked, Sites]]:
    """The swept edits in order, each with the sites of the model that it is for."""
    found = []
    for edit in edits:
        there = table
        if isinstance(edit, Graft) and edit.model is not None:
            other, theirs = of_model(model, inputs, edit.model)
            there = known_sites(other, one_example(other, theirs)[0])
        leaves = flat([edit])[0]
        found += [(leaf, there) for leaf in leaves if isinstance(leaf, Each | Stacked)]
    return found


def checked_table(
    model: Callable[..., Any], inputs: tuple[Any, ...], edits: Sequence[Any]
) -> Sites:
    """A model's sites; raises `ValueError` for edits that cannot apply."""
    example, lead = one_example(model, inputs)
    table = known_sites(model, example)
    batch = batch_shape(inputs, lead)
    every = split(edits, table, batch)[2]
    for edit in every:
        edit.check(table)
    still = [e for e in every if not any(map(is_swept, flat([e])[0]))]
    check_together(still, table)
    for donor in grafted_calls(model, inputs, edits):
        checked_table(donor.fn, donor.args, donor.edits)
    # Points of a grid differ only in their indices, which matter only with grafts.
    grafts = [edit for edit in still if isinstance(edit, Graft)]
    for swept in [e for e in every if grafts and is_swept(e)]:
        for point in _points(swept, table):
            check_together([*grafts, point], table)
    return table


def _points(leaf: Each | Stacked, table: Sites) -> tuple[Any, ...]:
    """The edits of a sweep."""
    if isinstance(leaf, Stacked):
        return leaf.edits
    expanded = leaf.expand(table)
    return tuple(expanded.at(int(i)) for i in np.flatnonzero(expanded.exists))


def flat(edits: Sequence[Any]) -> tuple[list[Any], Any]:
    """The leaves of a list of edits, and its structure; a swept edit is one leaf."""
    return jax.tree.flatten(edits, is_leaf=is_swept)


@eqx.filter_jit
def _sweep(
    metric: Callable[..., Array],
    model: Callable[..., Any],
    inputs: tuple[Any, ...],
    found: Combinations,
    chunk: int | None,
) -> tuple[Array, dict[Place, Array]]:
    def one(moving: list[Any]) -> tuple[Array, dict[Place, Array]]:
        ran = ran_with(model, inputs, (), found.at(moving))
        value = metric(ran.outputs, *inputs)
        if not isinstance(value, jax.Array | np.ndarray | float | int):
            kind = type(value).__name__
            raise ValueError(f"the metric must return an array of numbers, got {kind}")
        entries = {place: x.entries.sum() for place, x in ran.changes.items()}
        return jnp.asarray(value), entries

    if chunk is None:
        return jax.vmap(one)(found.moving)
    return jax.lax.map(one, found.moving, batch_size=chunk)
