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
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from ._checks import whole
from ._circuit import Circuit as Circuit, Edge
from ._fit import minimised
from ._gates import GateLoss, likely, open_probability
from ._graph import Graph, MetricOfCuts, READERS, WRITERS


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
    value = MetricOfCuts.of(metric, model, inputs, source, writers, readers)
    score = np.asarray(_scores(value, steps))
    order = _pruning_order(value.graph, score, keep)
    start = np.zeros(len(score))
    if keep is not None:
        start[np.argsort(-np.abs(score))[keep:]] = 1
    return _circuit(value.graph, score, _prune(value, start, order, threshold))


def learn_circuit(
    metric: Callable[..., Array],
    model: Callable[..., Any],
    inputs: Sequence[Any],
    source: Sequence[Any],
    *,
    penalty: float,
    gates: Literal["edges", "writers"] = "edges",
    steps: int = 500,
    optimizer: optax.GradientTransformation | None = None,
    seed: int = 0,
    writers: Iterable[str] = WRITERS,
    readers: Iterable[str] = READERS,
) -> Circuit:
    """Finds the edges that a metric needs by training a gate on each.

    All gates are trained at once, so this takes `steps` runs where `find_circuit` takes
    one for each edge, and edges that replace one another are not cut together. The loss
    is how far the metric moves from its value in the whole model, plus `penalty` for
    each open gate (hard concrete gates, Louizos et al. 2018, arXiv 1712.01312).

    **Arguments:**

    - `metric`, `model`, `inputs`, `source`, `writers`, `readers`: As for
        `find_circuit`.
    - `penalty`: In units of the metric, positive; a larger one leaves fewer edges.
    - `gates`: Whether each edge has a gate, or each writer: a head, an MLP.
    - `steps`, `optimizer`, `seed`: Of the training; Adam with a rate of .1 by default.

    **Returns:** The `Circuit` of the gates that end more open than shut. Scores are the
    probabilities of being open.

    **Raises:** `ValueError` as `find_circuit`.
    """
    if not penalty > 0:
        raise ValueError(f"penalty must be positive, got {penalty}")
    if gates not in ("edges", "writers"):
        raise ValueError(f"gates is 'edges' or 'writers', got {gates!r}")
    steps = whole("steps", steps, 1)
    value = MetricOfCuts.of(metric, model, inputs, source, writers, readers)
    each = [edge if gates == "edges" else edge[0] for edge in value.graph.edges]
    known = {part: i for i, part in enumerate(dict.fromkeys(each))}
    gate_of = jnp.array([known[part] for part in each])
    entire = eqx.filter_jit(value)(jnp.zeros(len(each)))
    loss = GateLoss(value, entire, gate_of, penalty)
    optimizer = optax.adam(0.1) if optimizer is None else optimizer
    # Nearly all gates are open at first.
    logits, _ = minimised(loss, jnp.full(len(known), 2.0), optimizer, steps, seed)
    cuts = jnp.asarray(likely(logits)[gate_of] < 0.5, float)
    score = np.asarray(open_probability(logits)[gate_of])
    return _circuit(value.graph, score, (cuts, _ends(value, cuts)))


def _circuit(graph: Graph, score: np.ndarray, found: Any) -> Circuit:
    """The circuit of cuts and of the four metrics of `_ends`."""
    cuts, ends = found
    edges = tuple(
        Edge(writer, reader, float(s))
        for (writer, reader), s, cut in zip(graph.edges, score, cuts, strict=True)
        if not cut
    )
    return Circuit(edges, len(graph.edges), *map(float, ends))


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


@eqx.filter_jit
def _scores(value: MetricOfCuts, steps: int) -> Array:
    """The mean change of the metric that cutting each edge makes, to first order."""
    slope = jax.grad(value)
    levels = (jnp.arange(steps) + 0.5) / steps if steps > 1 else jnp.zeros(1)
    count = len(value.graph.edges)
    return jax.lax.map(lambda level: slope(jnp.full(count, level)), levels).mean(0)


@eqx.filter_jit
def _prune(value: MetricOfCuts, start: Any, order: Any, threshold: float):
    """The cuts, and the metrics of `_ends`."""
    whole = value(jnp.zeros(len(start)))

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
    return cuts, _ends(value, cuts)


@eqx.filter_jit
def _ends(value: MetricOfCuts, cuts: Array) -> tuple[Array, ...]:
    """The metrics of a `Circuit`: whole, alone, without, none."""
    all_cut = jnp.ones_like(cuts)
    return value(1 - all_cut), value(cuts), value(1 - cuts), value(all_cut)
