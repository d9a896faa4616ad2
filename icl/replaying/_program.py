"""The program that a replay compiles: measures of one checkpoint's model on a batch."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

import opto

from ..batches import first_of, size_of
from ..experiments import Trained
from ..measures import (
    AnyMeasure,
    EachSequence,
    GroupMean,
    Measure,
    OfModel,
    SequenceMean,
    sites_of,
    Under,
)
from ..models import (
    ExemplarLabelModel,
    QueryRows,
    with_known_exemplars,
    with_known_tokens,
)
from ..tasks.exemplar_label import ExemplarLabelTask
from ..tasks.exemplar_label.dense import GroupedSequences


# How many sequences go through the model at once, so that they fit into the caches.
_CHUNK = 128

Values = dict[str, Array]
Compute = Callable[[PyTree, opto.toolkit.Combinations, "Batch"], Values]


class Batch(eqx.Module):
    """Sequences; if few different exemplars occur in them, each is stored only once.

    **Attributes:**

    - `sequences`: The sequences; if there is a table, their `examples` are ids.
    - `table`: The exemplars by their id.
    """

    sequences: PyTree
    table: Float[Array, "id dim"] | None

    def __len__(self) -> int:
        return size_of(self.sequences)

    def at(self, which: Any) -> PyTree:
        """One of the sequences, or some of them, with their exemplars."""
        return self.whole(jax.tree.map(lambda x: x[which], self.sequences))

    def whole(self, sequences: PyTree) -> PyTree:
        """The given sequences with their exemplars in place of ids."""
        if self.table is None:
            return sequences
        examples = self.table[sequences.examples]
        return dataclasses.replace(sequences, examples=examples)


def batch_of(trained: Trained, sequences: PyTree) -> Batch:
    """The sequences as a batch, with ids for exemplars if that saves work."""
    if isinstance(sequences, GroupedSequences):
        if sequences.table.ndim == 2 and isinstance(trained.model, ExemplarLabelModel):
            return Batch(sequences.places, sequences.table)
        sequences = sequences.sequences
    examples = getattr(sequences, "examples", None)
    known = isinstance(trained.model, ExemplarLabelModel)
    known = known and isinstance(trained.task, ExemplarLabelTask)
    if not known or examples is None or examples.ndim != 3:
        return Batch(jax.tree.map(jnp.asarray, sequences), None)
    flat = np.ascontiguousarray(examples).reshape(-1, examples.shape[-1])
    ids: dict[bytes, int] = {}
    found = [ids.setdefault(row.tobytes(), len(ids)) for row in flat]
    if 2 * len(ids) > len(found):
        return Batch(jax.tree.map(jnp.asarray, sequences), None)
    table = np.frombuffer(b"".join(ids), flat.dtype).reshape(len(ids), -1)
    index = np.array(found, np.int32).reshape(examples.shape[:2])
    sequences = dataclasses.replace(sequences, examples=jnp.asarray(index))
    return Batch(jax.tree.map(jnp.asarray, sequences), jnp.asarray(table))


def computation(trained: Trained, measures: Mapping[str, AnyMeasure]) -> Compute:
    """The function that computes the measures from a checkpoint's arrays.

    It also takes the edits and a batch. In each result, the axes of a sweep come first.
    """
    static = eqx.filter(trained.model, eqx.is_array, inverse=True)

    def compute(
        arrays: PyTree, found: opto.toolkit.Combinations, batch: Batch
    ) -> Values:
        model = eqx.combine(arrays, static)
        under = functools.partial(_under_edits, trained, measures, model, batch)
        if not found.axes:
            return under(found.at([]))
        values = jax.lax.map(lambda point: under(found.at(point)), found.moving)
        return {name: found.laid_out(value) for name, value in values.items()}

    return compute


def _under_edits(
    trained: Trained,
    measures: Mapping[str, AnyMeasure],
    model: PyTree,
    batch: Batch,
    edits: tuple[opto.toolkit.AbstractEdit, ...],
) -> Values:
    values: Values = {}
    # Measures by their further edits; two edits are equal if they are one object.
    forwards: dict[tuple[int, ...], dict[str, Measure]] = {}
    further: dict[tuple[int, ...], tuple[opto.toolkit.AbstractEdit, ...]] = {}
    for name, measure in measures.items():
        if isinstance(measure, OfModel):
            whole = batch.whole(batch.sequences)
            values[name] = jnp.asarray(measure.fn(model, trained.task, whole, edits))
            continue
        own = tuple(measure.edits) if isinstance(measure, Under) else ()
        one = measure.measure if isinstance(measure, Under) else measure
        key = tuple(map(id, own))
        further[key] = own
        forwards.setdefault(key, {})[name] = one
    for key, together in forwards.items():
        every = (*edits, *further[key])
        values |= _forward(trained.task, model, batch, every, together)
    return {name: values[name] for name in measures}


def _forward(
    task: Any,
    model: PyTree,
    batch: Batch,
    edits: tuple[opto.toolkit.AbstractEdit, ...],
    measures: Mapping[str, Measure],
) -> Values:
    """Takes the measures in one forward of the batch, chunk by chunk."""
    record = sites_of(measures)
    table = opto.sites(task.forward, model, batch.at(0))
    fast = _known(task, model, batch, record, edits, table)
    by_id, model = fast is not None, model if fast is None else fast
    forward = task.forward
    if isinstance(model, ExemplarLabelModel) and _query_alone(measures, edits, table):
        forward = _QueryForward(task)

    def one(example: PyTree) -> Values:
        whole = batch.whole(example)
        outputs, seen = opto.visit(
            forward, model, example if by_id else whole, record=record, edits=edits
        )
        return {
            name: jnp.asarray(measure.fn(seen, outputs, whole))
            for name, measure in measures.items()
        }

    return _reduced(one, batch.sequences, len(batch), measures)


class _QueryForward(eqx.Module):
    """A task's forward that computes the last block only for the query."""

    task: Any

    def __call__(self, model: PyTree, example: PyTree, *, tap: opto.Tap) -> PyTree:
        return self.task.forward(model, example, tap=QueryRows(tap))


def _reduced(
    one: Callable[[PyTree], Values],
    sequences: PyTree,
    count: int,
    measures: Mapping[str, Measure],
) -> Values:
    """The values of all sequences, combined as each measure says."""
    chunks = math.ceil(count / _CHUNK)
    size = math.ceil(count / chunks)
    # The last chunk is padded with copies of the last sequence, which do not count.
    order = np.minimum(np.arange(chunks * size), count - 1).reshape(chunks, size)
    counts = np.arange(chunks * size).reshape(chunks, size) < count

    def group_of(over: GroupMean) -> np.ndarray:
        if len(over.index) != count:
            got = f"{len(over.index)} indices for {count} sequences"
            raise ValueError(f"GroupMean needs one index for each sequence, got {got}")
        return np.where(counts, np.asarray(over.index)[order], -1)

    groups = {
        name: jnp.asarray(group_of(measure.over))
        for name, measure in measures.items()
        if isinstance(measure.over, GroupMean)
    }

    def chunk(args: tuple[Array, Array, dict[str, Array]]) -> Values:
        order, counts, groups = args
        values = jax.vmap(one)(jax.tree.map(lambda x: x[order], sequences))
        return {
            name: _part(measures[name].over, value, counts, groups.get(name))
            for name, value in values.items()
        }

    parts = jax.lax.map(chunk, (jnp.asarray(order), jnp.asarray(counts), groups))
    return {
        name: _whole(measures[name].over, part, count) for name, part in parts.items()
    }


def _part(over: Any, value: Array, counts: Array, groups: Array | None) -> Array:
    if isinstance(over, EachSequence):
        return value
    value = value.astype(jnp.promote_types(value.dtype, jnp.float32))
    if isinstance(over, SequenceMean):
        shape = (-1, *[1] * (value.ndim - 1))
        return jnp.sum(jnp.where(counts.reshape(shape), value, 0), 0)
    # An index of -1 means no group.
    total = jnp.zeros((over.count, *value.shape[1:]), value.dtype)
    return total.at[groups].add(value, mode="drop", wrap_negative_indices=False)


def _whole(over: Any, parts: Array, count: int) -> Array:
    if isinstance(over, EachSequence):
        return parts.reshape(-1, *parts.shape[2:])[:count]
    total = parts.sum(0)
    if isinstance(over, SequenceMean):
        return total / count
    index = np.asarray(over.index)
    sizes = np.bincount(index[index >= 0], minlength=over.count)
    return total / sizes.reshape(-1, *[1] * (total.ndim - 1))


def _known(
    task: Any,
    model: PyTree,
    batch: Batch,
    record: list[str],
    edits: tuple[opto.toolkit.AbstractEdit, ...],
    table: opto.toolkit.Sites,
) -> PyTree | None:
    """The cheapest model on ids of exemplars that still has all sites asked for.

    `None` if there is none. There is none for edits that are derived from the inputs,
    because it is not known which sites these read.
    """
    plain = [edit.site for edit in edits if isinstance(edit, opto.toolkit.Edit)]
    if batch.table is None or len(plain) < len(edits):
        return None
    edited = {site.name for pattern in plain for site in table.match(pattern)}
    asked = {site.name for pattern in record for site in table.match(pattern)} | edited
    if "tokens.exemplar" in asked or any(n.startswith("tokens.") for n in edited):
        return None
    one = first_of(batch.sequences)
    for known in (with_known_tokens, with_known_exemplars):
        found = known(model, batch.table)
        if found is not None and asked <= {*opto.sites(task.forward, found, one)}:
            return found
    return None


def _query_alone(
    measures: Mapping[str, Measure],
    edits: tuple[opto.toolkit.AbstractEdit, ...],
    table: opto.toolkit.Sites,
) -> bool:
    """Whether the last block is needed only for the query.

    Then no edit changes it or what follows, and no measure reads other tokens there.
    """
    last = max(site.layer for site in table.values() if site.layer is not None)
    late = lambda site: site.layer == last or site.name.startswith(("final", "logits"))
    plain = [edit for edit in edits if isinstance(edit, opto.toolkit.Edit)]
    if len(plain) < len(edits):
        return False
    edited = [site for edit in plain for site in table.match(edit.site)]
    recorded = [
        site
        for measure in measures.values()
        if measure.rows != "query"
        for pattern in measure.record
        for site in table.match(pattern)
    ]
    return not any(map(late, [*edited, *recorded]))
