"""Circuit discovery: which edges of a model carry a behaviour.

The model is a graph. Some parts write into the residual stream: the embedding, each
head, each MLP. Every later part reads it: each head's queries, keys and values, each
MLP, the final norm. Each pair of a writer and a later reader is an edge. To cut an
edge, the reader's input loses what the writer wrote and gets what the writer wrote in a
run on other inputs.

This works for any model in which the input of each reader is a sum that the writers
before it add to. `writers` and `readers` name those sites.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ._checks import is_metric, one_number, whole
from ._circuit import Circuit as Circuit, CircuitPart, Edge
from ._discover import known_sites
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

    def __init__(self, table: Sites, writers: Sequence[str], readers: Sequence[str]):
        if why := table.not_additive(*writers):
            raise ValueError(f"writers={list(writers)}: {why}")
        for name in {*writers, *readers} - {*WRITERS, *READERS}:
            table.match(name)
        names = list(table)
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
        self._counts = {
            reader.name: sum(
                names.index(site.name) < names.index(reader.name)
                for site, _ in self._slots
            )
            for reader in self._readers
        }
        # A reader that comes before every writer has no edge.
        self._readers = [s for s in self._readers if self._counts[s.name]]
        if not self._readers:
            raise ValueError(
                "no reader comes after a writer, so there is no edge: the first writer "
                f"is {self._writers[0].name!r}, the readers are {list(self._counts)}"
            )
        self.edges = tuple(
            (CircuitPart.of(writer, w), CircuitPart.of(reader, r))
            for reader in self._readers
            for writer, w in self._slots[: self._counts[reader.name]]
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
                cut = jnp.tensordot(masks[name], change[: self._counts[name]], (0, 0))
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
            shape = self._counts[reader.name], len(_heads(reader))
            size = shape[0] * shape[1]
            masks[reader.name] = cuts[start : start + size].reshape(shape)
            start += size
        return masks


def find_circuit(
    metric: Callable[..., Array],
    model: Callable[..., Any],
    inputs: Sequence[Any],
    source: Sequence[Any],
    *,
    threshold: float,
    keep: int | None = None,
    steps: int = 1,
    writers: Iterable[str] = WRITERS,
    readers: Iterable[str] = READERS,
) -> Circuit:
    """Finds the edges that a metric needs, and measures how well they do alone.

    First every edge is scored by the gradient of the metric in its cut (edge
    attribution patching, Syed et al. 2023). Then edges are tried one by one, from the
    output backwards, the weakest of each reader first. An edge is cut for good if that
    moves the metric less than `threshold` further from its value in the whole model
    (ACDC, Conmy et al. 2023, algorithm 1).

    **Arguments:**

    - `metric`: `metric(outputs, *inputs)`, one number.
    - `model`: Takes `tap=`. It says what one example is (`input_axes`), or `inputs` are
        one example.
    - `inputs`: The inputs on which the model shows the behaviour to explain.
    - `source`: Other inputs of the same shapes; their values replace cut edges.
    - `threshold`: In units of the metric, positive; a larger one leaves fewer edges.
    - `keep`: How many edges, those with the largest scores, are tried one by one; the
        others are cut at once. `None` tries all, one run of the model for each edge.
    - `steps`: Gradients are averaged over this many levels of cutting all edges at
        once; 1 takes them in the whole model.
    - `writers`, `readers`: The sites that edges join, names or globs. Their values have
        one shape, such as `[seq, d_model]`. There may be an axis `head` or `kv_head` in
        front; each of its indices is a part of its own.

    **Returns:**

    The `Circuit`: its edges with their scores, and the metric of the whole model, of
    the circuit alone, of the model without the circuit, and with all edges cut.

    **Raises:** `ValueError` for a threshold that is not positive, for sites that do not
    exist or that no edge joins, and for a metric that is not one floating-point
    number.
    """
    if not threshold > 0:
        raise ValueError(f"threshold must be positive, got {threshold}")
    steps = whole("steps", steps, 1, "a positive number")
    if keep is not None:
        keep = whole("keep", keep, 0, "a number of edges or None")
    is_metric(metric)
    check_alike(inputs, source)
    example, lead = one_example(model, tuple(inputs))
    graph = Graph(known_sites(model, example), list(writers), list(readers))
    _, other = run(model, *source, record=graph.sites)
    given = (metric, model, tuple(inputs), dict(other))
    score = np.asarray(_scores(graph, *given, lead, steps))
    order = _pruning_order(graph, score, keep)
    start = np.zeros(len(graph.edges))
    if keep is not None:
        start[np.argsort(-np.abs(score))[keep:]] = 1
    cuts, values = _prune(graph, *given, lead, start, order, threshold)
    entire, alone, without, none = map(float, values)
    edges = tuple(
        Edge(writer, reader, float(s))
        for (writer, reader), s, cut in zip(graph.edges, score, cuts, strict=True)
        if not cut
    )
    return Circuit(edges, len(graph.edges), entire, alone, without, none)


def _pruning_order(graph: Graph, score: np.ndarray, keep: int | None) -> np.ndarray:
    """Edges from the last reader to the first, the weakest of each first."""
    readers = list(dict.fromkeys(reader for _, reader in graph.edges))
    place = {reader: i for i, reader in enumerate(readers)}
    last_first = [-place[reader] for _, reader in graph.edges]
    order = np.lexsort((np.abs(score), np.array(last_first)))
    if keep is None:
        return order
    kept = set(np.argsort(-np.abs(score))[:keep].tolist())
    return np.array([i for i in order if i in kept], int)


def _value(graph, metric, model, inputs, source, lead, cuts) -> Array:
    def one(source, *example):
        return graph.run(model, example, source, cuts)

    for _ in range(lead):
        one = eqx.filter_vmap(one)
    return one_number(metric(one(source, *inputs), *inputs))


@eqx.filter_jit
def _scores(graph, metric, model, inputs, source, lead, steps) -> Array:
    """The mean change of the metric that cutting each edge makes, to first order."""
    slope = jax.grad(lambda c: _value(graph, metric, model, inputs, source, lead, c))
    levels = (jnp.arange(steps) + 0.5) / steps if steps > 1 else jnp.zeros(1)
    count = len(graph.edges)
    return jax.lax.map(lambda level: slope(jnp.full(count, level)), levels).mean(0)


@eqx.filter_jit
def _prune(graph, metric, model, inputs, source, lead, start, order, threshold):
    """The cuts, and the four metrics of a `Circuit`: whole, alone, without, none."""

    def value(cuts):
        return _value(graph, metric, model, inputs, source, lead, cuts)

    whole = value(jnp.zeros(len(graph.edges)))

    def step(carry, edge):
        cuts, distance = carry
        tried = cuts.at[edge].set(1)
        further = jnp.abs(value(tried) - whole)
        better = further - distance < threshold
        cuts = jnp.where(better, tried, cuts)
        return (cuts, jnp.where(better, further, distance)), None

    start = jnp.asarray(start, float)
    carry = (start, jnp.abs(value(start) - whole))
    (cuts, _), _ = jax.lax.scan(step, carry, order)
    ends = whole, value(cuts), value(1 - cuts), value(jnp.ones_like(cuts))
    return cuts, ends


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
