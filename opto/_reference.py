"""Edits that set values of other runs: patches, means, values of other examples."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Shaped

from ._checks import named, whole
from ._edit import check_fits, Edit, Heads, numbers, select
from ._record import Record
from ._site import glob, Site, Sites
from ._where import Chosen


class Values(eqx.Module):
    """Values by the name of their site, of one example or with batch axes in front.

    Values with batch axes are paired with the examples of `opto.run`, one by one.
    """

    arrays: dict[str, Array]


class Patch(Edit):
    """Sets entries to the values of another run, such as on another input.

    ```python
    _, source = opto.run(model, *source_inputs, record="blocks.*.resid_post")
    edit = opto.Patch("blocks.0.resid_post", source, pos=-1)
    logits, _ = opto.run(model, *inputs, edits=[edit])
    ```
    """

    values: Values

    def __init__(
        self,
        site: str,
        values: Mapping[str, ArrayLike | Sequence[Any]],
        *,
        strength: ArrayLike = 1.0,
        heads: Heads = None,
        **where: Chosen,
    ):
        """**Arguments:**

        - `values`: A `Record`, or arrays by the name of their site. Values of one
            example are used for all; a batch needs as many examples as `opto.run` gets.
        - `site`, `strength`, `heads`, `where`: as for `opto.Clamp`.

        **Raises:** `ValueError` for a value with NaN, and if none is of such a site.
        """
        select(self, site, strength, heads, where)
        self.values = Values(_matching("Patch", site, values))

    def replacement(self, value: Array, site: Site) -> Array:
        return _of(self.values.arrays, site, "Patch")

    def arguments(self) -> dict[str, Any]:
        return {"values": self.values.arrays}


class Resample(Edit):
    """Sets entries to another example's values, drawn from a reference run.

    No example gets its own values: the batch is shuffled without a fixed point, the
    same way at all sites. This ablation keeps what all examples have in common.
    """

    values: Values

    def __init__(
        self,
        site: str,
        reference: Mapping[str, ArrayLike | Sequence[Any]],
        *,
        seed: int | None = 0,
        strength: ArrayLike = 1.0,
        heads: Heads = None,
        **where: Chosen,
    ):
        """**Arguments:**

        - `reference`: The record of a batch of at least two examples. The edited run
            must have the same number of examples.
        - `seed`: The seed of the shuffle. `None` takes the values as they are: the text
            form holds values that are already shuffled.
        - `site`, `strength`, `heads`, `where`: as for `opto.Clamp`.

        **Raises:** `ValueError` for a reference of fewer than two examples.
        """
        select(self, site, strength, heads, where)
        arrays = _matching("Resample", site, reference)
        if seed is not None:
            seed = whole("seed", seed, 0, "a whole number, 0 or more, or None")
            if isinstance(reference, Record):
                for name, x in arrays.items():
                    _lead("Resample", name, x, reference)
            arrays = {name: _shuffled(x, seed) for name, x in arrays.items()}
        self.values = Values(arrays)

    def replacement(self, value: Array, site: Site) -> Array:
        return _of(self.values.arrays, site, "Resample")

    def arguments(self) -> dict[str, Any]:
        return {"reference": self.values.arrays, "seed": None}


class Mean(Edit):
    """Sets entries to their mean over the examples of a reference run."""

    means: dict[str, Array]

    def __init__(
        self,
        site: str,
        reference: Mapping[str, ArrayLike | Sequence[Any]],
        *,
        strength: ArrayLike = 1.0,
        heads: Heads = None,
        **where: Chosen,
    ):
        """**Arguments:**

        - `reference`: The `Record` of a batch, which is averaged over its batch axes;
            or the means themselves, a mapping from the names of sites.
        - `site`, `strength`, `heads`, `where`: as for `opto.Clamp`.

        **Raises:** `ValueError` for a record of a single example, and at sites that do
        not hold floating-point numbers.
        """
        select(self, site, strength, heads, where)
        means = _matching("Mean", site, reference)
        if isinstance(reference, Record):
            means = {name: _mean(name, x, reference) for name, x in means.items()}
            means = {name: _finite("Mean", name, x) for name, x in means.items()}
        self.means = means

    def replacement(self, value: Array, site: Site) -> Array:
        if not jnp.issubdtype(site.dtype, jnp.floating):
            raise ValueError(f"Mean: {site} does not hold floating-point numbers")
        return _of(self.means, site, "Mean")

    def arguments(self) -> dict[str, Any]:
        return {"reference": self.means}


def check_arrays(kind: str, arrays: Mapping[str, Any], sites: Iterable[Site]) -> None:
    """Raises `ValueError` unless each of the sites has a value that fits."""
    for site in sites:
        check_fits(kind, _of(arrays, site, kind), site)


def split(edits: Any, table: Sites, batch: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Separates the values of single examples from what holds for all examples.

    Returns the arrays to map along the batch axes, the rest, and the edits as one
    example sees them, with shapes in place of those arrays.

    **Raises:** `ValueError` if there are not as many values as examples.
    """

    def decide(node: Any) -> Any:
        if not isinstance(node, Values):
            return False
        along = {k: _along(k, x, table, batch) for k, x in node.arrays.items()}
        return eqx.tree_at(lambda v: v.arrays, node, along)

    is_values = lambda x: isinstance(x, Values)
    spec = jax.tree.map(decide, edits, is_leaf=is_values)
    if not any(jax.tree.leaves(spec)):
        return None, edits, edits
    mapped, rest = eqx.partition(edits, spec)
    lead = len(batch)
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape[lead:], x.dtype), mapped
    )
    return mapped, rest, eqx.combine(shapes, rest)


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


def _matching(
    kind: str, site: str, values: Mapping[str, ArrayLike | Sequence[Any]]
) -> dict[str, Array]:
    """The values of the sites that a pattern matches."""
    if not isinstance(values, Mapping):
        got = type(values).__name__
        raise ValueError(f"{kind} takes a Record or arrays by site, got {got}")
    names = [named(f"{kind}: the name of a site", name) for name in values]
    found = [name for name in names if glob(site).fullmatch(name)]
    if not found:
        there = ", ".join(names)
        raise ValueError(f"{kind}: no value for {site!r}; there are values for {there}")
    return {name: _finite(kind, name, values[name]) for name in found}


def _finite(kind: str, name: str, values: Any) -> Array:
    # A run's scores may be masked by infinities.
    return numbers(f"{kind}: the value at {name!r}", values, infinite=True)


def _of(arrays: Mapping[str, Any], site: Site, kind: str) -> Array:
    if site.name not in arrays:
        there = ", ".join(arrays)
        what = f"no value for {site.name!r}; there are values for {there}"
        raise ValueError(f"{kind}: {what}")
    value = arrays[site.name]
    if value.ndim != len(site.shape):
        raise ValueError(
            f"{kind}: an array of shape {value.shape} at {site}; wanted values of one "
            "example or, in opto.run, of as many examples as the inputs have"
        )
    if isinstance(value, jax.ShapeDtypeStruct):
        return jnp.zeros(value.shape, value.dtype)
    return value


def _shuffled(x: Array, seed: int) -> Array:
    if x.ndim == 0 or len(x) < 2:
        raise ValueError(f"Resample needs two examples or more, got shape {x.shape}")
    # A cycle through a random order: no example stays in place.
    order = np.random.default_rng(seed).permutation(len(x))
    other = np.empty(len(x), int)
    other[order] = np.roll(order, 1)
    return x[other]


def _mean(name: str, x: Shaped[Array, "..."], record: Record) -> Array:
    return jnp.mean(x, tuple(range(_lead("Mean", name, x, record))))


def _lead(kind: str, name: str, x: Shaped[Array, "..."], record: Record) -> int:
    """The number of batch axes; raises `ValueError` if there are none."""
    axes = record.axes_of(name)
    lead = x.ndim - len(axes) if axes is not None else 0
    if lead < 1 or 0 in x.shape[:lead]:
        raise ValueError(
            f"{kind}: the record of {name!r} is not of a batch of examples, but has "
            f"shape {x.shape}"
        )
    return lead
