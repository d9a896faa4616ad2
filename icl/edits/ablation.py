"""A model's metrics with heads ablated: each on its own, and all together."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

import opto

from ..protocols import Summary
from ..summaries import scalars, summarise
from ..text import ArraysByShape


Head = tuple[int, int]

# How many entries of a site, counted for one head, are in memory at once. This counts
# all examples and all runs side by side.
_AT_ONCE = 2**25


@dataclasses.dataclass(frozen=True, repr=False)
class HeadAblations(ArraysByShape):
    """The metrics of a set under ablations, as numbers from `icl.summaries.scalars`.

    **Fields:**

    - `heads`: (layer, head) pairs, in the order of `each`.
    - `metrics`: Names, in the order of the columns.
    - `baseline`: With nothing ablated, `[metric]`.
    - `each`: With one head ablated, `[head, metric]`.
    - `together`: With all of the heads ablated, `[metric]`.
    """

    heads: tuple[Head, ...]
    metrics: tuple[str, ...]
    baseline: Float[np.ndarray, " metric"]
    each: Float[np.ndarray, "head metric"]
    together: Float[np.ndarray, " metric"]

    def of(self, metric: str) -> tuple[float, dict[Head, float], float]:
        """One metric: its baseline, its value for each head, and for all together."""
        column = self.metrics.index(metric)
        each = self.each[:, column].tolist()
        by_head = dict(zip(self.heads, each, strict=True))
        return float(self.baseline[column]), by_head, float(self.together[column])


def find_heads(table: opto.toolkit.Sites, site: str, heads: str) -> tuple[Head, ...]:
    """The (layer, head) pairs that a text names, without repeats.

    **Arguments:**

    - `site`: A site with an axis `head`.
    - `heads`: `"1:3 1:7"`, or `"all"`.

    **Raises:** `ValueError` if a head does not exist or a site has no heads.
    """
    sizes: dict[int | None, int] = {}
    for found in table.match(site):
        if "head" not in found.axes:
            raise ValueError(f"site must have an axis 'head', got {found}")
        sizes[found.layer] = found.shape[found.axes.index("head")]
    if heads == "all":
        return tuple((layer or 0, k) for layer, n in sizes.items() for k in range(n))
    edit = opto.Zero(site, heads=heads)
    opto.toolkit.check([edit], table)
    pairs = np.asarray(edit.where.indices["layer head"]).tolist()
    return tuple(dict.fromkeys((layer, head % sizes[layer]) for layer, head in pairs))


def ablate_heads(
    model: Any,
    task: Any,
    batch: PyTree,
    heads: Sequence[Head],
    *,
    summaries: Mapping[str, Summary | None],
    site: str = "blocks.*.attn.z",
    kind: type[opto.Zero | opto.Mean | opto.Resample] = opto.Zero,
    edits: Sequence[opto.toolkit.AbstractEdit] = (),
) -> HeadAblations:
    """The task's metrics under each ablation, in one compiled sweep.

    **Arguments:**

    - `model`, `task`: For example those that `icl.load` gives.
    - `batch`: The examples. `opto.Mean` and `opto.Resample` also use them as reference,
        recorded under `edits`.
    - `heads`: (layer, head) pairs, at least one.
    - `summaries`: How a set's rows become numbers, for example those of `icl.load`.
    - `site`: The site at which heads are ablated.
    - `kind`: The ablation.
    - `edits`: Further edits, applied before the ablation.

    **Raises:** `ValueError` as `opto.run`, and if the reference is a single example.
    """
    edits, leaves = tuple(edits), jax.tree.leaves(batch)
    forward, table = on_batch(model, task, batch)
    reference = ()
    if kind is not opto.Zero:
        _, record = opto.run(forward, *leaves, record=site, edits=edits)
        reference = (record,)

    def ablated(
        pairs: Sequence[Head], strength: float = 1.0
    ) -> opto.toolkit.AbstractEdit:
        # Padded to equal length, so that one program runs all points.
        padded = [*pairs, *[pairs[0]] * (len(heads) - len(pairs))]
        return kind(site, *reference, heads=padded, strength=strength)

    points = [ablated(heads, 0.0), *(ablated([pair]) for pair in heads), ablated(heads)]
    values = opto.sweep(
        eqx.Partial(_flat_rows, task, jax.tree.structure(batch)),
        forward,
        *leaves,
        edits=[*edits, opto.stack(points)],
        chunk=side_by_side(table, len(leaves[0])),
    )
    shapes = jax.eval_shape(
        lambda: _rows(task, batch, opto.run(forward, *leaves, edits=edits)[0])
    )
    found = [
        scalars(summarise(_apart(shapes, point), summaries))
        for point in np.asarray(values)
    ]
    baseline, *each, together = (np.array([*x.values()], np.float64) for x in found)
    return HeadAblations(
        tuple(heads), tuple(found[0]), baseline, np.stack(each), together
    )


def on_batch(
    model: Any, task: Any, batch: PyTree
) -> tuple[opto.toolkit.OnExamples, opto.toolkit.Sites]:
    """A task's forward that `opto.run` can call on the arrays of a batch; its sites."""
    example = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(jnp.shape(x)[1:], jnp.result_type(x)), batch
    )
    forward = opto.toolkit.on_examples(task.forward, model, example)
    return forward, opto.sites(forward, *jax.tree.leaves(example))


def side_by_side(table: opto.toolkit.Sites, examples: int) -> int:
    """How many runs of a batch fit into memory at once, at least one."""
    sizes = (
        math.prod(n for a, n in zip(s.axes, s.shape, strict=True) if a != "head")
        for s in table.values()
    )
    return max(1, _AT_ONCE // (examples * max(sizes, default=1)))


def _rows(task: Any, batch: PyTree, outputs: PyTree) -> dict[str, Array]:
    return jax.vmap(task.metrics)(outputs, batch)


def _flat_rows(
    task: Any, structure: Any, outputs: PyTree, *leaves: Array
) -> Float[Array, "example number"]:
    """The metrics of each example, flattened and joined."""
    rows = _rows(task, jax.tree.unflatten(structure, leaves), outputs)
    flat = [rows[name].reshape(len(leaves[0]), -1) for name in sorted(rows)]
    return jnp.concatenate(flat, axis=1)


def _apart(
    shapes: Mapping[str, Any], flat: Float[np.ndarray, "example number"]
) -> dict[str, np.ndarray]:
    """The metrics by name again, from what `_flat_rows` gives."""
    sizes = [math.prod(shapes[name].shape[1:]) for name in sorted(shapes)]
    parts = np.split(flat, np.cumsum(sizes)[:-1], axis=1)
    return {
        name: part.reshape(shapes[name].shape)
        for name, part in zip(sorted(shapes), parts, strict=True)
    }
