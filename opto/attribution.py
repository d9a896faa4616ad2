"""Attribution patching: activation patching of all entries at once, to first order."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ._checks import is_metric, one_number, whole
from ._discover import known_sites
from ._edit import AbstractEdit, Edit
from ._examples import one_example
from ._record import Record
from ._reference import Patch, Values
from ._run import run
from ._site import Site, Sites
from ._where import known, Where
from .hints import brief
from .patching import check_alike, Metric


def attribution_patch(
    metric: Metric,
    model: Callable[..., Any],
    inputs: Sequence[Any],
    source: Sequence[Any],
    *,
    sites: str | Iterable[str],
    edits: Sequence[AbstractEdit] = (),
) -> Record:
    """Activation patching of every entry at once, to first order.

    An entry's attribution is the gradient of the metric there, times the source's value
    minus the entry's own (Nanda 2023, "Attribution patching"). The sum over a head's
    entries estimates how much `activation_patch` of that head changes the metric.

    **Arguments:** as `activation_patch`; `sites` as `record` of `opto.run`.

    **Returns:**

    The attributions, in the shape of the sites' values.
    """
    is_metric(metric)
    check_alike(inputs, source)
    wanted = [sites] if isinstance(sites, str) else list(sites)
    _, own = run(model, *inputs, record=wanted, edits=edits)
    _, other = run(model, *source, record=wanted, edits=edits)
    names = _floating(own)
    slopes = _slopes(metric, model, tuple(inputs), names, _zeros(own), tuple(edits))
    return _attributed(own, other, slopes)


def integrated_attribution(
    metric: Metric,
    model: Callable[..., Any],
    inputs: Sequence[Any],
    source: Sequence[Any],
    *,
    sites: str | Iterable[str],
    steps: int = 8,
    along: str = "embed",
    edits: Sequence[AbstractEdit] = (),
) -> Record:
    """`attribution_patch` with gradients averaged on the way between the inputs.

    The values at the site `along` move on a straight line, in `steps` steps, from the
    run's own to the source's (Sundararajan et al. 2017, eq. 3, by the midpoint rule;
    for circuits Hanna et al. 2024). At that site the attributions sum to the change of
    the metric when the site is patched; the sum is more exact with more steps.

    **Arguments:** as `attribution_patch`; `steps` is positive; `along` is one site, and
    no site in `sites` is computed before it.
    """
    steps = whole("steps", steps, 1, "a positive number")
    is_metric(metric)
    check_alike(inputs, source)
    names = [sites] if isinstance(sites, str) else list(sites)
    table = known_sites(model, one_example(model, tuple(inputs))[0])
    asked = {s.name for n in names for s in table.match(n)}
    _check_along(along, asked, table)
    wanted = list(dict.fromkeys([*names, along]))
    _, own = run(model, *inputs, record=wanted, edits=edits)
    _, other = run(model, *source, record=wanted, edits=edits)

    def slopes(share: Array) -> dict[str, Array]:
        between = (1 - share) * own[along] + share * other[along]
        there = (*edits, Patch(along, {along: between}))
        return _slopes(metric, model, tuple(inputs), _floating(own), _zeros(own), there)

    shares = (jnp.arange(steps) + 0.5) / steps
    mean = jax.tree.map(lambda x: jnp.mean(x, 0), jax.lax.map(slopes, shares))
    entire = _attributed(own, other, mean)
    axes = tuple((name, entire.axes_of(name)) for name in entire if name in asked)
    return Record({name: entire[name] for name in entire if name in asked}, axes)


def _check_along(along: str, asked: set[str], table: Sites) -> None:
    if len(table.match(along)) > 1 or along not in table:
        raise ValueError(f"along is one site, got {brief(along)}")
    order = list(table)
    early = [name for name in asked if order.index(name) < order.index(along)]
    if early:
        raise ValueError(
            f"{min(early)!r} is computed before along={along!r}, which is set to given "
            f"values: {min(early)!r} would get no attribution"
        )


class _Shift(Edit):
    """Adds a value for each example; gradients in activations are taken in these."""

    values: Values

    def __init__(self, site: str, values: Array):
        self.site, self.values = site, Values({site: values})
        self.where, self.strength = Where({}), known(1.0)

    def replacement(self, value: Array, site: Site) -> Array:
        shift = self.values.arrays[site.name]
        if isinstance(shift, jax.ShapeDtypeStruct):
            return value
        return value + shift

    def arguments(self) -> dict[str, Any]:
        return {"values": self.values.arrays}


@eqx.filter_jit
def _slopes(metric, model, inputs, names, zeros, edits) -> dict[str, Array]:
    """The gradient of the metric in the values of sites."""

    def value(shifts: dict[str, Array]) -> Array:
        own = [_Shift(name, shifts[name]) for name in names]
        out, _ = run(model, *inputs, edits=[*edits, *own])
        return one_number(metric(out, *inputs))

    return jax.grad(value)(zeros)


def _floating(record: Record) -> tuple[str, ...]:
    for name, value in record.items():
        if not eqx.is_inexact_array(value):
            raise ValueError(f"{name!r} holds {value.dtype}, which has no gradient")
    return tuple(record)


def _zeros(record: Record) -> dict[str, Array]:
    return {name: jnp.zeros_like(value) for name, value in record.items()}


def _attributed(own: Record, other: Record, slopes: Mapping[str, Array]) -> Record:
    values = {name: slopes[name] * (other[name] - own[name]) for name in own}
    return Record(values, tuple((name, own.axes_of(name)) for name in own))
