"""Edits that set values of other runs: patches, means, values of other examples."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Shaped

from ._checks import named, whole
from ._edit import check_fits, Edit, Heads, numbers, select
from ._record import Record
from ._site import glob, Site, Sites
from ._subspace import Subspace
from ._where import choices_of, Chosen, find_axis, is_concrete, Where


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
    source: Where
    basis: Subspace | None

    def __init__(
        self,
        site: str,
        values: Mapping[str, ArrayLike | Sequence[Any]],
        *,
        basis: ArrayLike | Sequence[Any] | None = None,
        axes: str | None = None,
        strength: ArrayLike = 1.0,
        heads: Heads = None,
        **where: Chosen,
    ):
        """**Arguments:**

        - `values`: A `Record`, or arrays by the name of their site. Values of one
            example are used for all; a batch needs as many examples as `opto.run` gets.
        - `basis`, `axes`: As for `opto.Project`: only what lies in that subspace is
            exchanged (Geiger et al. 2024, arXiv 2303.02536).
        - `site`, `strength`, `heads`, `where`: as for `opto.Clamp`. An axis with
            `source_` in front (`pos=-1, source_pos=5`) says where on that axis of
            `values` the new ones are, in the order of those that are set. Its lengths
            may then differ.

        **Raises:** `ValueError` for a value with NaN, and if none is of such a site.
        """
        source = {k: where.pop(k) for k in [*where] if k.startswith("source_")}
        select(self, site, strength, heads, where)
        given = {name.removeprefix("source_"): x for name, x in source.items()}
        self.source = Where.of(None, given)
        if lacking := self.source.indices.keys() - self.where.indices.keys():
            axis = min(lacking)
            raise ValueError(f"Patch: source_{axis}= needs {axis}=, where it goes")
        found = _matching("Patch", site, values)
        if isinstance(values, Record):
            for name in (name for name in found if values.axes_of(name) is None):
                why = "the record was changed by a function (record={…}), so its axes"
                raise ValueError(f"Patch: {name!r}: {why} are not the site's")
        self.values = Values(found)
        what = f"Patch at {site!r}: the basis"
        self.basis = None if basis is None else Subspace.of(what, basis, axes)

    def check(self, table: Sites) -> None:
        super().check(table)
        self.check_source(table)

    def check_source(self, table: Sites) -> None:
        """Raises `ValueError` for values of too few tokens, and wrong `source_`s."""
        for site in table.match(self.site):
            self._check_lengths(site)
        for axis, chosen in self.source.indices.items():
            for site in table.match(self.site):
                place = find_axis(axis, site) - len(site.axes)
                size = self.values.arrays[site.name].shape[place]
                index = getattr(chosen, "index", chosen)  # Of each example.
                given = np.ravel(index) if is_concrete(index) else np.zeros(1)
                if (np.abs(given + 0.5) > size).any():
                    got = f"source_{axis}={given.tolist()}"
                    raise ValueError(f"Patch: {got} is out of range of {size}")

    def _check_lengths(self, site: Site) -> None:
        """One token's values would go to all tokens; a reader would not see that."""
        if site.name not in self.values.arrays:
            return  # It is reported with the names that there are.
        shape = self.values.arrays[site.name].shape[-len(site.axes) :]
        if len(shape) < len(site.axes):
            return  # A number, or an array that does not fit.
        moved = {find_axis(axis, site) for axis in self.source.indices}
        for i, (has, wants) in enumerate(zip(shape, site.shape, strict=False)):
            if has == 1 < wants and i not in moved:
                got = f"wanted {wants} along {site.axes[i]!r} of {site}, got 1"
                hint = f"source_{site.axes[i]}= says where one goes"
                raise ValueError(f"Patch: {got}; {hint}, opto.Clamp sets all alike")

    def replacement(self, value: Array, site: Site) -> Array:
        found = _of(self.values.arrays, site, "Patch")
        for axis, chosen in self.source.indices.items():
            place = find_axis(axis, site)
            found = jnp.moveaxis(found, place, 0)
            at, to = (choices_of(x)[:, 0] for x in (chosen, self.where.indices[axis]))
            if len(at) != len(to):
                wanted = f"as many indices for source_{axis}= as for {axis}="
                raise ValueError(f"Patch: wanted {wanted}, got {len(at)} and {len(to)}")
            new = jnp.zeros((site.shape[place], *found.shape[1:]), found.dtype)
            found = jnp.moveaxis(new.at[to].set(found[at]), 0, place)
        if self.basis is None:
            return found
        return value + self.basis.within(found.astype(value.dtype) - value, site)

    def arguments(self) -> dict[str, Any]:
        source = {f"source_{k}": x for k, x in self.source.keywords().items()}
        basis = {} if self.basis is None else self.basis.arguments()
        return {"values": self.values.arrays, **basis, **source}


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
        tokens: Bool[ArrayLike, "*batch seq"] | None = None,
        strength: ArrayLike = 1.0,
        heads: Heads = None,
        **where: Chosen,
    ):
        """**Arguments:**

        - `reference`: The record of a batch of at least two examples. The edited run
            must have the same number of examples.
        - `tokens`: Which tokens are no padding. Then each position is shuffled among
            the examples that have a token there, and padding keeps its values.
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
            arrays = {
                name: _shuffled(x, seed, _real(name, x, reference, tokens))
                for name, x in arrays.items()
            }
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
        tokens: Bool[ArrayLike, "*batch seq"] | None = None,
        strength: ArrayLike = 1.0,
        heads: Heads = None,
        **where: Chosen,
    ):
        """**Arguments:**

        - `reference`: The `Record` of a batch, which is averaged over its batch axes;
            or the means themselves, a mapping from the names of sites.
        - `tokens`: Which tokens of the reference are no padding; the others do not
            count.
        - `site`, `strength`, `heads`, `where`: as for `opto.Clamp`.

        **Raises:** `ValueError` for a record of a single example, and at sites that do
        not hold floating-point numbers.
        """
        select(self, site, strength, heads, where)
        means = _matching("Mean", site, reference)
        if isinstance(reference, Record):
            means = {
                name: _mean(name, x, reference, tokens) for name, x in means.items()
            }
            means = {name: _finite("Mean", name, x) for name, x in means.items()}
        elif tokens is not None:
            raise ValueError("Mean: tokens= needs the Record of a run, got means")
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


def _shuffled(x: Array, seed: int, real: np.ndarray | None) -> Array:
    if x.ndim == 0 or len(x) < 2:
        raise ValueError(f"Resample needs two examples or more, got shape {x.shape}")
    if real is None:
        other = x[_others(np.ones(len(x), bool), seed)]
        # On as many devices as before.
        return jax.device_put(other, x.sharding) if is_concrete(x) else other
    # By position: `real` has the axes of x, of length one but for examples and tokens.
    place = int(np.argmax(real.shape[1:])) + 1
    rows = np.moveaxis(real, place, 0).reshape(real.shape[place], len(x))
    others = [
        jnp.moveaxis(x, place, 0)[i][_others(row, seed)] for i, row in enumerate(rows)
    ]
    return jnp.stack(others, place)


def _others(real: np.ndarray, seed: int) -> np.ndarray:
    """For each example another one, among those that are real."""
    there = np.flatnonzero(real)
    if len(there) == 1:
        raise ValueError("Resample: only one example has a token at some position")
    # A cycle through a random order: no example stays in place.
    order = there[np.random.default_rng(seed).permutation(len(there))]
    other = np.arange(len(real))
    other[order] = np.roll(order, 1)
    return other


def _mean(name: str, x: Array, record: Record, tokens: Any) -> Array:
    lead = tuple(range(_lead("Mean", name, x, record)))
    real = _real(name, x, record, tokens)
    if real is None:
        return jnp.mean(x, lead)
    if not real.any(lead).all():
        raise ValueError("Mean: tokens= has a position without a token in any example")
    # Padding may hold anything, also NaN.
    # Summed in 32 bits or more, as `jnp.mean` does.
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    mean = jnp.where(real, wide, 0).sum(lead) / jnp.asarray(real.sum(lead), wide.dtype)
    return mean.astype(x.dtype) if jnp.issubdtype(x.dtype, jnp.floating) else mean


def _real(name: str, x: Any, record: Any, tokens: Any) -> np.ndarray | None:
    """`tokens` with the axes of a value; `None` where all count."""
    axes = record.axes_of(name) if isinstance(record, Record) else None
    token = next((axis for axis in ("seq", "pos") if axis in (axes or ())), None)
    if tokens is None or axes is None or token is None:
        return None
    real, lead = np.asarray(tokens), x.ndim - len(axes)
    place = lead + axes.index(token)
    wanted = (*x.shape[:lead], x.shape[place])
    if real.dtype != bool or real.shape != wanted:
        got = f"{real.dtype}{list(real.shape)}"
        raise ValueError(f"tokens= must be bool{list(wanted)} for {name!r}, got {got}")
    return real.reshape(
        *wanted[:-1], *(wanted[-1] if i == place else 1 for i in range(lead, x.ndim))
    )


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
