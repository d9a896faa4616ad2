"""The edges of a model: from what writes into the residual stream to what reads it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ._checks import is_metric, one_number
from ._circuit import CircuitPart
from ._discover import direct_sources, known_sites
from ._examples import one_example
from ._run import run
from ._site import Site, Sites
from ._tap import Rows, VisitorTap
from .patching import check_alike


WRITERS = ("embed", "**.result", "**.mlp.out")
READERS = ("**.q_in", "**.k_in", "**.v_in", "**.mlp.in", "final.in")


class Graph:
    """The edges of a model, in the order of computation of their readers.

    **Fields:**

    - `edges`: All of them; a vector of cuts has one entry for each.
    """

    def __init__(
        self,
        table: Sites,
        writers: Sequence[str],
        readers: Sequence[str],
        sources: Callable[[Collection[str]], Mapping[str, Collection[str]]],
    ):
        """**Arguments:** `sources`: For each of some sites, on which others it depends
        directly."""
        if why := table.not_additive(*writers):
            raise ValueError(f"writers={list(writers)}: {why}")
        for name in {*writers, *readers} - {*WRITERS, *READERS}:
            table.match(name)
        self._writers = [s for s in table.values() if s.matches(*writers)]
        self._readers = [s for s in table.values() if s.matches(*readers)]
        if not self._writers or not self._readers:
            what = "writers" if not self._writers else "readers"
            raise ValueError(
                f"no site matches {what}={[writers, readers][what[0] == 'r']}"
            )
        _check_shapes([*self._writers, *self._readers])
        self._slots = [(site, head) for site in self._writers for head in _heads(site)]
        self._divided = {site.name for site in self._writers if _divided(site)}
        # A part may be computed before another one that it does not feed, such as heads
        # before the MLP beside them.
        direct = sources({s.name for s in (*self._writers, *self._readers)})
        self._read = {
            reader.name: [
                i
                for i, (site, _) in enumerate(self._slots)
                if site.name in direct.get(reader.name, ())
            ]
            for reader in self._readers
        }
        # A reader that comes before every writer has no edge.
        self._readers = [s for s in self._readers if self._read[s.name]]
        if not self._readers:
            raise ValueError(
                "no reader comes after a writer, so there is no edge: the first writer "
                f"is {self._writers[0].name!r}, the readers are {list(self._read)}"
            )
        self.edges = tuple(
            (CircuitPart.of(writer, w), CircuitPart.of(reader, r))
            for reader in self._readers
            for writer, w in map(self._slots.__getitem__, self._read[reader.name])
            for r in _heads(reader)
        )

    # Compared by content, so that equal graphs share compiled programs.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self.edges == other.edges

    def __hash__(self) -> int:
        return hash(self.edges)

    @property
    def sites(self) -> list[str]:
        """The names of the writers' sites."""
        return [site.name for site in self._writers]

    def run(
        self,
        model: Callable[..., Any],
        inputs: tuple[Any, ...],
        source: dict[str, Array],
        cuts: Float[Array, " edge"],
    ) -> PyTree:
        """The model's output on one example with each edge cut by some amount.

        `source` has what the writers wrote on the other example. In `cuts`, 1 cuts an
        edge and 0 leaves it; it is linear in between.
        """
        masks = self._masks(cuts)
        written: dict[str, Array] = {}

        def visit(
            name: str, value: Array, axes: tuple[str, ...], rows: Rows | None
        ) -> Array:
            if name in masks:
                change = [written[n] - source[n] for n in self.sites if n in written]
                change = jnp.concatenate([*map(self._by_part, self.sites, change)])
                # For each part of the reader, the sum of what is cut of earlier parts.
                change = change[np.asarray(self._read[name])]
                cut = jnp.tensordot(masks[name], change, (0, 0))
                value = value - cut.reshape(value.shape)
            if name in source:
                written[name] = value
            return value

        def wanted(scope: str) -> bool:
            asked = (*masks, *source)
            return any(name == scope or name.startswith(f"{scope}.") for name in asked)

        return model(*inputs, tap=VisitorTap(visit, wanted))

    def _by_part(self, name: str, value: Array) -> Float[Array, "writer ..."]:
        """What a writer wrote, with an axis in front for its parts."""
        return value if name in self._divided else value[None]

    def _masks(self, cuts: Array) -> dict[str, Float[Array, "writer head"]]:
        masks, start = {}, 0
        for reader in self._readers:
            shape = len(self._read[reader.name]), len(_heads(reader))
            size = shape[0] * shape[1]
            masks[reader.name] = cuts[start : start + size].reshape(shape)
            start += size
        return masks


class MetricOfCuts(eqx.Module):
    """A metric as a function of how far each edge is cut."""

    graph: Graph = eqx.field(static=True)
    metric: Callable[..., Array]
    model: Any
    inputs: Any
    source: dict[str, Array]
    lead: int = eqx.field(static=True)

    @staticmethod
    def of(
        metric: Callable[..., Array],
        model: Callable[..., Any],
        inputs: Sequence[Any],
        source: Sequence[Any],
        writers: Iterable[str],
        readers: Iterable[str],
    ) -> "MetricOfCuts":
        """**Raises:** `ValueError` for unknown sites, and if no edge joins them."""
        is_metric(metric)
        check_alike(inputs, source)
        example, lead = one_example(model, tuple(inputs))
        table = known_sites(model, example)
        sources = lambda sites: direct_sources(model, example, sites)
        graph = Graph(table, list(writers), list(readers), sources)
        _, other = run(model, *source, record=graph.sites)
        return MetricOfCuts(graph, metric, model, tuple(inputs), dict(other), lead)

    def __call__(self, cuts: Float[Array, " edge"]) -> Float[Array, ""]:
        def one(source, *example):
            return self.graph.run(self.model, example, source, cuts)

        for _ in range(self.lead):
            one = eqx.filter_vmap(one)
        out = one(self.source, *self.inputs)
        return one_number(self.metric(out, *self.inputs))


def _divided(site: Site) -> bool:
    return site.axes[:1] in (("head",), ("kv_head",))


def _heads(site: Site) -> list[int | None]:
    """The heads of a site; `[None]` if it has none."""
    return list(range(site.shape[0])) if _divided(site) else [None]


def _check_shapes(sites: Sequence[Site]) -> None:
    """Raises `ValueError` unless all sites have one shape, apart from heads."""
    first, *others = ((site, site.shape[_divided(site) :]) for site in sites)
    for site, shape in others:
        if shape != first[1]:
            raise ValueError(
                "an edge joins sites whose values have one shape, apart from an axis "
                f"head or kv_head in front, got {first[0]} and {site}"
            )
