"""An edit once for each index of some axes: what `opto.sweep` runs over."""

import abc
import dataclasses
import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ._per_example import NamedTokens, PerExample
from ._site import Site, Sites
from ._where import axis_size, canonical, Where
from .hints import brief


@dataclasses.dataclass(frozen=True)
class Expanded:
    """All points of a sweep as one value: some arrays have the sweep's axis in front.

    **Fields:**

    - `value`: An edit or a selection.
    - `mapped`: The same structure, true at the arrays with that axis.
    - `shape`: The shape of the grid; its points lie along that axis.
    - `exists`: Which points exist.
    """

    value: Any
    mapped: Any
    shape: tuple[int, ...]
    exists: np.ndarray

    def at(self, i: int) -> Any:
        """The value at one point."""
        moving, still = eqx.partition(self.value, self.mapped)
        return eqx.combine(jax.tree.map(lambda x: x[i], moving), still)


class AbstractSwept(eqx.Module):
    """Several edits in place of one: what `each` and `stack` make."""

    @abc.abstractmethod
    def check(self, table: Sites) -> None:
        """Raises `ValueError` if an edit cannot apply to a model with these sites."""

    @abc.abstractmethod
    def expand(self, table: Sites) -> Expanded:
        """The edit at every point."""


class Each(AbstractSwept):
    """An edit once for each index of `axes`; made by `edit.each("layer", "head")`.

    The indices are those that the edit selects on an axis, or all of them.
    """

    edit: Any
    axes: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, edit: Any, axes: tuple[str, ...]):
        if not axes:
            raise ValueError('each() needs the name of an axis, such as each("head")')
        if wrong := [axis for axis in axes if not isinstance(axis, str)]:
            raise ValueError(f"each() takes names of axes, got {brief(wrong[0])}")
        self.edit = edit
        self.axes = tuple(canonical(axis) for axis in axes)
        if len(set(self.axes)) < len(self.axes):
            raise ValueError(f"each{axes} names an axis twice")
        if "layer head" in edit.where.indices and {"layer", "head"} & set(self.axes):
            raise ValueError("heads= picks pairs; sweep those with opto.stack")
        for axis in self.axes:
            if isinstance(edit.where.indices.get(axis), PerExample | NamedTokens):
                differ = "it differs between examples"
                raise ValueError(f"each({axis!r}) cannot sweep that axis: {differ}")

    def check(self, table: Sites) -> None:
        points = self.expand(table)
        # The points differ only in their indices, which `expand` has checked.
        for first in np.flatnonzero(points.exists)[:1]:
            points.at(int(first)).check(table)

    def expand(self, table: Sites) -> Expanded:
        """The edit at every point of the grid.

        A grid over layers of different widths has points that do not exist.
        """
        sites = table.match(self.edit.site)
        self.edit.where.check(sites)
        found = self.edit.where.within(sites)
        indices = dict(self.edit.where.indices)
        new = {a: jnp.zeros((0, 1), int) for a in self.axes if a not in indices}
        Where({**indices, **new}).check(found)
        ranges = [self._range(axis, indices, found) for axis in self.axes]
        points = list(itertools.product(*ranges))
        grid = np.array(points, np.int32).reshape(-1, len(self.axes))
        named = [dict(zip(self.axes, point, strict=True)) for point in points]
        exists = np.array([_exists(point, found) for point in named], bool)

        kept = {k: x for k, x in indices.items() if k not in self.axes}
        swept = " ".join(self.axes)
        kept[swept] = jnp.asarray(grid)[:, None]
        where = Where(kept, self.edit.where.entries)
        edit = eqx.tree_at(lambda e: e.where, self.edit, where)
        mapped = jax.tree.map(lambda _: False, edit)
        mapped = eqx.tree_at(lambda e: e.where.indices[swept], mapped, True)
        return Expanded(edit, mapped, tuple(len(r) for r in ranges), exists)

    def __repr__(self) -> str:
        return f"{self.edit!r}.each({', '.join(map(repr, self.axes))})"

    def _range(self, axis: str, indices: dict, found: tuple[Site, ...]) -> list[int]:
        if axis in indices:
            return [int(i) for i in np.asarray(indices[axis])[:, 0]]
        if axis == "layer" and all("layer" not in site.axes for site in found):
            return sorted({site.layer for site in found if site.layer is not None})
        return list(range(max(axis_size(axis, site) for site in found)))


def _exists(point: dict[str, int], found: tuple[Site, ...]) -> bool:
    layer = point.pop("layer", None)
    here = [site for site in found if layer is None or site.layer == layer]
    return all(
        -axis_size(axis, site) <= index < axis_size(axis, site)
        for site in here
        for axis, index in point.items()
    )


def is_swept(leaf: Any) -> bool:
    """Whether `each` or `stack` made this."""
    return isinstance(leaf, AbstractSwept)
