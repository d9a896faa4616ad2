"""What can be read off a batch under the microscope: measures for `icl.replay`."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

import opto

from .tasks import Sequence


@dataclasses.dataclass(frozen=True)
class Measure:
    """A function of a batch's record and outputs, which runs compiled.

    **Fields:**

    - `fn`: `fn(record, outputs, batch)`, arrays with the batch's axis in front, to an
        array of any shape.
    - `record`: The sites it reads, names or globs.
    """

    fn: Callable[[opto.Record, PyTree, Any], Array]
    record: tuple[str, ...] = ()


def induction_strength(layer: int) -> Measure:
    """How much more the query attends to the correct label than to the others.

    For each head of a layer, in [-1, 1], averaged over sequences: the query's attention
    to the labels in context that equal its own, minus that to the labels that differ
    (Singh et al. 2024, section 3.1).
    """
    site = f"blocks.{layer}.attn.pattern"

    def fn(record: opto.Record, outputs: PyTree, batch: Sequence) -> Array:
        role, pair = _layout(record[site].shape[-1])
        strength = jax.vmap(opto.heads.induction_strength, (0, None, None, 0))
        return jnp.mean(strength(record[site], role, pair, batch.labels), 0)

    return Measure(fn, (site,))


def previous_token_strength(layer: int) -> Measure:
    """How much each label attends to its exemplar, the token before it.

    For each head of a layer, in [0, 1], averaged over labels and sequences: the first
    half of an induction circuit.
    """
    site = f"blocks.{layer}.attn.pattern"

    def fn(record: opto.Record, outputs: PyTree, batch: Sequence) -> Array:
        role, _ = _layout(record[site].shape[-1])
        strength = jax.vmap(opto.heads.previous_token, (0, None))
        return jnp.mean(strength(record[site], role == opto.LABEL), 0)

    return Measure(fn, (site,))


def task_metric(task: Any, name: str) -> Measure:
    """The mean over sequences of one of the task's metrics, e.g. `accuracy`."""

    def fn(record: opto.Record, outputs: PyTree, batch: PyTree) -> Array:
        metrics = jax.vmap(task.metrics)(outputs, batch)
        if name not in metrics:
            raise ValueError(f"no metric {name!r}; there is {', '.join(metrics)}")
        return jnp.mean(metrics[name])

    return Measure(fn)


def _layout(seq: int) -> tuple[Int[Array, " seq"], Int[Array, " seq"]]:
    """Role and pair of the tokens exemplar, label, exemplar, label, …, query."""
    position = jnp.arange(seq)
    role = jnp.where(position % 2 == 1, opto.LABEL, opto.EXEMPLAR)
    return role.at[-1].set(opto.QUERY), position // 2


def sites_of(measures: Mapping[str, Measure]) -> list[str]:
    """The sites that some measures read, each once."""
    return list(dict.fromkeys(site for m in measures.values() for site in m.record))
