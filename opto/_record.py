"""What a run recorded: a mapping from sites to values that knows their axes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._checks import named
from ._html import dims, document
from ._site import glob, layer_of, Site, Sites
from ._tap import Rows
from ._where import find_axis, whole_numbers
from .hints import brief


Reducer = Callable[[Array], Any]
Request = str | Iterable[str] | Mapping[str, Reducer | None]


class Record(eqx.Module, Mapping[str, Any]):
    """What was recorded, by the name of the site; a pytree.

    `record["blocks.1.attn.pattern"]`; an unknown name raises `KeyError` with the known
    names. In a notebook it shows as a table, attention patterns as heat maps.
    """

    _values: dict[str, Any]
    # By site, the axes of one example's value; None where a reducer changed them.
    _axes: tuple[tuple[str, tuple[str, ...] | None], ...] = eqx.field(
        static=True, default=()
    )
    # By site, what the rows of attention are, where the model says it.
    _rows: tuple[tuple[str, Rows], ...] = eqx.field(static=True, default=())

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            raise KeyError(f"{name!r} was not recorded; recorded: {', '.join(self)}")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        # In the order of computation: JAX sorts dictionaries, block 10 before block 2.
        order = [name for name, _ in self._axes if name in self._values]
        return iter({**dict.fromkeys(order), **self._values})

    def __len__(self) -> int:
        return len(self._values)

    def axes_of(self, name: str) -> tuple[str, ...] | None:
        """The axes of one example's value; `None` if a reducer changed them."""
        return dict(self._axes).get(name)

    def rows_of(self, name: str) -> Rows | None:
        """What the rows of attention are; `None` if the model does not say it."""
        return dict(self._rows).get(name)

    def pick(self, site: str, **where: int | list[int]) -> Array:
        """Part of what was recorded, by the names of axes.

        ```python
        record.pick("attn.pattern", layer=1, head=3)  # [batch, seq, kv_seq]
        record.pick("attn.z", pos=-1)  # [layer, batch, head, d_head]
        ```

        **Arguments:**

        - `site`: A name, the end of one, or a glob.
        - `where`: For an axis of the site, by its name, or for `layer`: an index, which
            removes the axis, or a list of indices, which keeps it.

        **Returns:**

        The values of the site. If several sites match, their values are stacked along a
        new first axis. Batch axes come before those of the example.

        **Raises:** `ValueError` if nothing matches or the sites differ in shape.
        """
        names, layer = self.names(site), None
        if not any("layer" in (self.axes_of(name) or ()) for name in names):
            layer = where.pop("layer", None)
            names = _in_layers(site, names, layer)
        values = [self._indexed(name, where) for name in names]
        if len(values) == 1 and not isinstance(layer, list):  # A list keeps the axis.
            return values[0]
        if len({value.shape for value in values}) > 1:
            shapes = ", ".join(str(value.shape) for value in values)
            raise ValueError(f"the sites {', '.join(names)} differ in shape: {shapes}")
        return jnp.stack(values)

    def names(self, site: str) -> list[str]:
        """The recorded sites of a name, the end of one, or a glob; as for `pick`."""
        named("site", site)
        exact, end = glob(site), glob(f"**.{site}")
        names = [name for name in self if exact.fullmatch(name)]
        names = names or [name for name in self if end.fullmatch(name)]
        if not names:
            raise ValueError(f"no record of {site!r}; recorded: {', '.join(self)}")
        return names

    def _indexed(self, name: str, where: Mapping[str, int | list[int]]) -> Array:
        value, axes = self[name], self.axes_of(name)
        if not where:
            return value
        if axes is None:
            raise ValueError(f"{name!r} was reduced, so its axes have no names")
        lead = value.ndim - len(axes)
        site = Site(name, axes, value.shape[lead:], value.dtype)
        places = {find_axis(axis, site): chosen for axis, chosen in where.items()}
        if len(places) < len(where):
            raise ValueError(f"{' and '.join(where)} are the same axis of {site}")
        for axis, chosen in where.items():
            whole_numbers(axis, chosen)
        for place, chosen in sorted(places.items(), reverse=True):
            size = site.shape[place]
            wrong = [i for i in np.ravel(chosen) if not -size <= i < size]
            if wrong:
                raise ValueError(f"{axes[place]} {wrong[0]} is out of range at {site}")
            value = jnp.take(value, jnp.asarray(chosen), axis=lead + place)
        return value

    def __repr__(self) -> str:
        """A table of the recorded sites."""
        width = max(map(len, self), default=0)
        rows = [f"{n:{width}}  {dims(self[n], self.axes_of(n))}" for n in self]
        return "\n".join(rows) or "an empty Record"

    def _repr_html_(self) -> str:
        return document({name: (self[name], self.axes_of(name)) for name in self})


def _in_layers(
    site: str, names: list[str], layers: int | list[int] | None
) -> list[str]:
    """The sites of some layers, in the order in which the layers are given."""
    if layers is None:
        return names
    found: list[str] = []
    for layer in np.ravel(layers).tolist():
        here = [name for name in names if layer_of(name) == layer]
        if not here:
            there = ", ".join(names)
            raise ValueError(
                f"no record of {site!r} in layer={layer}; recorded: {there}"
            )
        found += here
    return found


def requested(record: Request, table: Sites) -> dict[str, Reducer | None]:
    """The sites that a request names, each with its reducer."""
    if isinstance(record, str):
        record = (record,)
    if not isinstance(record, Iterable):
        kind = type(record).__name__
        raise ValueError(f"record is a site, several sites or a mapping, got {kind}")
    named = isinstance(record, Mapping)
    asked = record.items() if named else ((site, None) for site in record)
    requests: dict[str, Reducer | None] = {}
    for pattern, reduce in asked:
        if reduce is not None and not callable(reduce):
            raise ValueError(
                f"the reducer of {pattern!r} is not callable: {brief(reduce)}"
            )
        for site in table.match(pattern):
            if requests.get(site.name, reduce) is not reduce:
                twice = f"record asks for {site.name!r} twice"
                raise ValueError(f"{twice}, with different reducers")
            requests[site.name] = reduce
    return requests
