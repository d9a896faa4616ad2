"""The effect of many edits from one backward pass."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._checks import is_metric, one_number
from ._edit import AbstractEdit, Edit, Selection
from ._run import run
from ._site import Site
from ._stack import OneOf, Stacked
from ._sweep import (
    checked_table,
    Swept,
    unswapped,
)
from ._swept import Each, Expanded, is_swept
from ._where import known, Where


def strength_grad(
    metric: Callable[..., Array],
    model: Callable[..., Any],
    *inputs: Any,
    edits: Swept | Sequence[Swept],
) -> Array:
    r"""The derivative of a metric in the strength of many edits, in one backward pass.

    All strengths are zero where the derivatives are taken. They estimate to first order
    how much each edit of an `opto.sweep` changes the metric. For `Zero` of heads, they
    estimate the ablation of every head at once (Michel et al. 2019).

    **Arguments:**

    - `metric`: `metric(outputs, *inputs)`, one number.
    - `model`, `inputs`: As for `opto.run`.
    - `edits`: As for `opto.sweep`, with exactly one swept edit; its strength varies.

    **Returns:**

    The derivatives, in the shape of the sweep; NaN for points that do not exist.

    **Raises:** `ValueError` as `opto.sweep`, and if the metric is not one
    floating-point number.
    """
    is_metric(metric)
    model, inputs, edits = unswapped(model, inputs, edits)
    table = checked_table(model, inputs, edits)
    places = [i for i, edit in enumerate(edits) if is_swept(edit)]
    if len(places) != 1:
        raise ValueError(f"strength_grad takes one swept edit, got {len(places)}")
    (place,) = places
    swept = edits[place]
    assert isinstance(swept, Each | Stacked)
    expanded = swept.expand(table)
    for part in swept.edits if isinstance(swept, Stacked) else (swept.edit,):
        if not hasattr(part, "strength"):
            raise ValueError(f"{part!r} has no strength to take the gradient in")
        for site in table.match(part.site) if isinstance(part, Selection) else ():
            if not jnp.issubdtype(site.dtype, jnp.inexact):
                why = f"{site.name!r} holds {site.dtype}, which has no gradient"
                raise ValueError(f"strength_grad: {why}")
    fixed = edits[:place], edits[place + 1 :]
    gradient = _gradient(metric, model, inputs, fixed, *_parts(expanded))
    return jnp.where(expanded.exists, gradient, jnp.nan).reshape(expanded.shape)


@eqx.filter_jit
def _gradient(metric, model, inputs, fixed, moving, still):
    count = len(jax.tree.leaves(moving)[0])
    before, after = fixed

    def value(strengths: Float[Array, " point"]) -> Array:
        swept = _superposed(moving, still, strengths)
        out, _ = run(model, *inputs, edits=(*before, *swept, *after))
        return one_number(metric(out, *inputs))

    return jax.grad(value)(jnp.zeros(count))


def _parts(expanded: Expanded) -> tuple[Any, Any]:
    return eqx.partition(expanded.value, expanded.mapped)


def _superposed(moving: Any, still: Any, strengths: Array) -> tuple[AbstractEdit, ...]:
    """All points of a sweep at once, each with its own strength."""
    value = eqx.combine(moving, still)
    if isinstance(value, OneOf):
        return tuple(
            _at_strength(edit, strength)
            for edit, strength in zip(value.edits, strengths, strict=True)
        )
    alone = isinstance(value, Edit) and all(
        leaf is None for leaf in jax.tree.leaves(_but_where(moving), is_leaf=_is_none)
    )
    if alone:  # They differ only in where they apply: one pass over each site.
        return (_Superposed(value, moving.where, still.where, strengths),)
    edits = []
    for i in range(math.prod(strengths.shape)):
        one = eqx.combine(jax.tree.map(lambda x, i=i: x[i], moving), still)
        edits.append(_at_strength(one, strengths[i]))
    return tuple(edits)


class _Superposed(Edit):
    """One edit at many selections: `value + sum_i strength_i mask_i (new - value)`."""

    edit: Edit
    moving: Where
    still: Where
    strengths: Float[Array, " point"]

    def __init__(self, edit: Edit, moving: Where, still: Where, strengths: Array):
        self.site, self.edit = edit.site, edit
        self.moving, self.still, self.strengths = moving, still, strengths
        self.where, self.strength = Where({}), known(1.0)

    def replacement(self, value: Array, site: Site) -> Array:
        def mask(moving):
            chosen = eqx.combine(moving, self.still).mask(site)
            assert chosen is not None  # The parts that vary are indices.
            return chosen.astype(value.dtype)

        masks = jax.vmap(mask)(self.moving)
        new = jnp.asarray(self.edit.replacement(value, site)).astype(value.dtype)
        change = new - value
        # A change that is not finite has no first order.
        change = jnp.where(jnp.isfinite(change), change, 0)
        strengths = self.strengths.astype(value.dtype)
        return value + jnp.tensordot(strengths, masks, 1) * change

    def arguments(self) -> dict[str, Any]:
        return {"edit": self.edit}


def _at_strength(edit: AbstractEdit, strength: Array) -> AbstractEdit:
    return eqx.tree_at(lambda e: e.strength, edit, strength)


def _but_where(moving: Any) -> Any:
    return eqx.tree_at(lambda e: e.where, moving, None)


def _is_none(leaf: Any) -> bool:
    return leaf is None
