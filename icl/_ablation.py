"""A model's metrics with heads ablated: each by itself, and all of them together."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

import opto


Head = tuple[int, int]

# Entries of one head's attention that are in memory at once, over all examples.
_AT_ONCE = 2**25


@dataclasses.dataclass(frozen=True)
class HeadAblations:
    """The mean of each metric over a batch.

    **Fields:**

    - `heads`: (layer, head) pairs, in the order of `each`.
    - `metrics`: Names, in the order of the columns.
    - `baseline`: Nothing ablated, `[metric]`.
    - `each`: One head ablated, `[head, metric]`.
    - `together`: All of the heads ablated, `[metric]`.
    """

    heads: tuple[Head, ...]
    metrics: tuple[str, ...]
    baseline: Float[np.ndarray, " metric"]
    each: Float[np.ndarray, "head metric"]
    together: Float[np.ndarray, " metric"]

    def of(self, metric: str) -> tuple[float, dict[Head, float], float]:
        """The baseline of one metric, each head's value, and the one together."""
        column = self.metrics.index(metric)
        each = self.each[:, column].tolist()
        by_head = dict(zip(self.heads, each, strict=True))
        return float(self.baseline[column]), by_head, float(self.together[column])


def find_heads(table: opto.Sites, site: str, heads: str) -> tuple[Head, ...]:
    """The (layer, head) pairs that a text names, each once.

    **Arguments:**

    - `site`: Where heads are an axis, `head`.
    - `heads`: `"1:3 1:7"`, or `"all"`.

    **Raises:** `ValueError` for a head that is not there, and sites without heads.
    """
    sizes: dict[int | None, int] = {}
    for found in table.match(site):
        if "head" not in found.axes:
            raise ValueError(f"site must have an axis 'head', got {found}")
        sizes[found.layer] = found.shape[found.axes.index("head")]
    if heads == "all":
        return tuple((layer or 0, k) for layer, n in sizes.items() for k in range(n))
    edit = opto.Zero(site, heads=heads)
    opto.check([edit], table)
    pairs = np.asarray(edit.where.indices["layer head"]).tolist()
    return tuple(dict.fromkeys((layer, head % sizes[layer]) for layer, head in pairs))


def ablate_heads(
    model: Any,
    task: Any,
    batch: PyTree,
    heads: Sequence[Head],
    *,
    site: str = "blocks.*.attn.z",
    kind: type[opto.Zero | opto.Mean | opto.Resample] = opto.Zero,
    edits: Sequence[opto.AbstractEdit] = (),
) -> HeadAblations:
    """The task's metrics under each ablation, in one compiled sweep.

    **Arguments:**

    - `model`, `task`: Such as those of `icl.load`.
    - `batch`: The examples; `opto.Mean` and `opto.Resample` take theirs as reference,
        under `edits`.
    - `heads`: (layer, head) pairs, at least one.
    - `site`: What of a head is ablated.
    - `kind`: The ablation.
    - `edits`: In force besides, ahead of the ablation.

    **Raises:** `ValueError` as `opto.run`, and for a single example as the reference.
    """
    inputs, edits = task.inputs(batch), tuple(edits)
    reference = ()
    if kind is not opto.Zero:
        _, record = opto.run(model, *inputs, record=site, edits=edits)
        reference = (record,)

    def ablated(pairs: Sequence[Head], strength: float = 1.0) -> opto.AbstractEdit:
        # Of equal length, so that all are points of one program.
        padded = [*pairs, *[pairs[0]] * (len(heads) - len(pairs))]
        return kind(site, *reference, heads=padded, strength=strength)

    points = [ablated(heads, 0.0), *(ablated([pair]) for pair in heads), ablated(heads)]
    outputs = eqx.filter_eval_shape(opto.run, model, *inputs)[0]
    names = tuple(jax.eval_shape(_metrics, task, batch, outputs))
    values = opto.sweep(
        eqx.Partial(_means, task, batch, names),
        model,
        *inputs,
        edits=[*edits, opto.stack(points)],
        chunk=side_by_side(inputs[-1]),
    )
    baseline, *each, together = np.asarray(values)
    return HeadAblations(tuple(heads), names, baseline, np.stack(each), together)


def side_by_side(labels: Int[Array, "example position"]) -> int:
    """How many runs of a batch fit into memory together, at least one."""
    examples, positions = labels.shape
    return max(1, _AT_ONCE // (examples * (2 * positions) ** 2))


def _metrics(task: Any, batch: PyTree, outputs: Array) -> dict[str, Array]:
    """The metrics of each example's query, whose outputs are the last."""
    return jax.vmap(task.metrics)(outputs[:, -1], batch)


def _means(
    task: Any, batch: PyTree, names: tuple[str, ...], outputs: Array, *inputs: Array
) -> Float[Array, " metric"]:
    metrics = _metrics(task, batch, outputs)
    return jnp.stack([jnp.mean(metrics[name]) for name in names])
