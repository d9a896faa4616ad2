"""Many edits in one compiled call."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._each import Each
from ._edit import Edit
from ._run import check, known_sites, run
from ._site import one_example, Sites


class Stacked(eqx.Module):
    """Edits of one structure, to be swept over; see `opto.stack`."""

    edits: tuple[Edit, ...]

    def expand(self, table: Sites) -> tuple[Edit, tuple[int, ...], np.ndarray]:
        """As `Each.expand`."""
        check(self.edits, table)

        def join(*xs):
            return jnp.stack(xs) if eqx.is_array(xs[0]) else xs[0]

        count = len(self.edits)
        return jax.tree.map(join, *self.edits), (count,), np.ones(count, bool)

    def __repr__(self) -> str:
        return f"stack({list(self.edits)!r})"


def stack(edits: Sequence[Edit]) -> Stacked:
    """Edits that differ in arrays alone, to be swept over by `opto.sweep`.

    **Raises:** `ValueError` if they differ in kind, site, axes or number of indices.
    """
    edits = tuple(edits) if isinstance(edits, Iterable) else ()
    if not edits or not all(isinstance(edit, Edit) for edit in edits):
        raise ValueError("stack() takes a list of at least one opto.Edit")
    for edit in edits[1:]:
        if _form(edit) != _form(edits[0]):
            raise ValueError(f"{edits[0]!r} and {edit!r} differ in more than arrays")
    return Stacked(edits)


def _form(edit: Edit) -> tuple[Any, ...]:
    leaves, structure = jax.tree.flatten(edit)
    return structure, [x.shape if eqx.is_array(x) else x for x in leaves]


def sweep(
    metric: Callable[..., Array],
    model: Callable[..., Any],
    *inputs: Any,
    edits: Edit | Each | Stacked | Sequence[Edit | Each | Stacked],
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
        swept; several of them give every combination.
    - `chunk`: How many edits run side by side; the chunks run one after the other.
        `None` is all at once. Large models are faster and smaller with few.

    **Returns:**

    The metric with the sweep's axes in front. Entries of a grid that do not exist (head
    7 of a layer that has four) are NaN.

    **Raises:** `ValueError` as `opto.run`, and for a `chunk` that is not positive.
    """
    if chunk is not None and not (isinstance(chunk, int) and chunk > 0):
        raise ValueError(f"chunk is a positive number of edits or None, got {chunk}")
    edits = tuple(edits) if isinstance(edits, Iterable) else (edits,)
    example, _ = one_example(model, inputs)
    table = known_sites(model, example)
    check([e for e in edits if not isinstance(e, Each | Stacked)], table)
    swept = [e.expand(table) for e in edits if isinstance(e, Each | Stacked)]
    if not swept:
        raise ValueError("no edit is swept: make one with .each(...) or opto.stack")
    # Every combination of the swept edits, as one long axis.
    counts = [math.prod(shape) for _, shape, _ in swept]
    picks = np.indices(counts).reshape(len(counts), -1)
    exists = np.ones(picks.shape[1], bool)
    moving = []
    for (edit, _, there), pick in zip(swept, picks, strict=True):
        arrays, rest = eqx.partition(edit, eqx.is_array)
        arrays = jax.tree.map(lambda x, pick=pick: x[pick], arrays)
        moving.append(eqx.combine(arrays, rest))
        exists &= there[pick]
    fixed = [e if isinstance(e, Edit) else None for e in edits]
    result = _sweep(metric, model, inputs, fixed, moving, chunk)
    if not exists.all():
        shape = [-1, *[1] * (result.ndim - 1)]
        result = jnp.where(exists.reshape(shape), result, jnp.nan)
    axes = itertools.chain(*(shape for _, shape, _ in swept))
    return result.reshape(*axes, *result.shape[1:])


@eqx.filter_jit
def _sweep(
    metric: Callable[..., Array],
    model: Callable[..., Any],
    inputs: tuple[Any, ...],
    fixed: list[Edit | None],
    moving: list[Edit],
    chunk: int | None,
) -> Array:
    """`fixed` has `None` where, in order, the edits of `moving` come in."""

    arrays, rest = eqx.partition(moving, eqx.is_array)

    def one(arrays: list[Edit]) -> Array:
        now = iter(eqx.combine(arrays, rest))
        edits = [next(now) if edit is None else edit for edit in fixed]
        out, _ = run(model, *inputs, edits=edits)
        value = metric(out, *inputs)
        if not isinstance(value, jax.Array | np.ndarray | float | int):
            kind = type(value).__name__
            raise ValueError(f"the metric must return an array of numbers, got {kind}")
        return jnp.asarray(value)

    if chunk is None:
        return jax.vmap(one)(arrays)
    return jax.lax.map(one, arrays, batch_size=chunk)
