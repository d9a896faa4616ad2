"""Every possible sequence: class pairs x label pairs x positions of the answer."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ...checks import instance, positive
from ...text import ArraysByShape
from ._context import Context
from ._labels import ClassLabels, FlippedLabels, Labels, Relabel
from ._sequence import Sequence
from ._task import ExemplarLabelTask


# More sequences than this are surely a mistake.
_MOST = 2**24

# How many similarities are computed at once, to limit the memory.
_PIECE = 4096


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class GroupedSequences(ArraysByShape):
    """Sequences, each once, and the properties of each.

    **Fields:**

    - `places`: The sequences with integers as examples: rows of `table`. They take 36
        bytes per sequence, where vectors would take kilobytes.
    - `table`: The exemplars in use, each once.
    - `groups`: The properties of each sequence, `[sequence]`. `class_pair`,
        `label_pair` and `relabelling` (pairs of labels in either order) are rows of
        `pairs`. `correct_position` is the context pair of the query's class, counted
        from 0. Then `query_class`, `correct_label`, and `similarity`, the cosine
        between the two exemplars of the context.
    - `pairs`: The meaning of the rows: pairs `[pair, 2]` of classes (as indices in the
        data) and of labels, in the order of the context.
    """

    places: Sequence
    table: Float[Array, "place dim"] | Int[Array, " place"]
    groups: dict[str, np.ndarray]
    pairs: dict[str, Int[np.ndarray, "pair 2"]]

    def __len__(self) -> int:
        return len(self.places.labels)

    @property
    def sequences(self) -> Sequence:
        """The sequences themselves, made anew at each call; they take much memory."""
        return shown(self.places, self.table)


def shown(
    places: Sequence, table: Float[Array, "place dim"] | Int[Array, " place"]
) -> Sequence:
    """The sequences with rows of a table as examples, instead of row numbers.

    Works for one sequence or a batch, compiled or not.
    """
    return eqx.tree_at(lambda s: s.examples, places, table[places.examples])


def dense_set(
    task: ExemplarLabelTask,
    *,
    exemplar: int = 0,
    query_exemplar: int | None = None,
    max_class_pairs: int | None = None,
    key: PRNGKeyArray | None = None,
) -> GroupedSequences:
    """All two-class sequences that a task can draw, each exactly once.

    These are all ordered pairs of different classes, times all ordered pairs of labels,
    times the two positions of the query's class: 50 · 49 · 16 · 2 = 78,400 for the
    training task of the induction-head paper. They are sorted by these three. They have
    no noise and ignore the task's distribution of classes. For other parts of the
    classes, exemplars or label pairs, build a task that draws from them.

    **Arguments:**

    - `task`: Its contexts have two items, one of the query's class and one of another
        class. Its labels are `Relabel`, `ClassLabels` or `FlippedLabels`; with the last
        two, a pair of classes has one pair of labels.
    - `exemplar`: Which exemplar each class shows in the context, from 0.
    - `query_exemplar`: Which exemplar the query shows; by default the same.
    - `max_class_pairs`: The largest number of ordered pairs of classes, for data with
        many classes. If there are more, they are drawn at random with `key`.

    **Raises:** `ValueError` for another kind of task, a missing exemplar, or more than
    sixteen million sequences.
    """
    _check_task(task)
    labels = task.config.labels
    class_ids, exemplar_ids = (
        np.asarray(x, np.int64) for x in (task.class_ids, task.exemplar_ids)
    )
    query_exemplar = exemplar if query_exemplar is None else query_exemplar
    for name, index in (("exemplar", exemplar), ("query_exemplar", query_exemplar)):
        if not 0 <= index < len(exemplar_ids):
            raise ValueError(f"{name} must be in [0, {len(exemplar_ids)}), got {index}")
    table = _label_pairs(labels)
    options = 1 if table is None else len(table)
    chosen = _class_pairs(len(class_ids), max_class_pairs, 2 * options, key=key)
    class_pairs = class_ids[chosen]
    # Labels that are the classes' own numbers, or these numbers exchanged.
    flip = -1 if isinstance(labels, FlippedLabels) else 1
    label_pairs = class_pairs[:, None, ::flip] if table is None else table[None]
    shown_ids = exemplar_ids[[exemplar, exemplar, query_exemplar]]
    return _assembled(task.data, class_pairs, label_pairs, shown_ids)


def _assembled(
    data: Array,
    class_pairs: Int[np.ndarray, "class_pair 2"],
    label_pairs: Int[np.ndarray, "#class_pair option 2"],
    exemplars: Int[np.ndarray, "3"],
) -> GroupedSequences:
    """All sequences of the class pairs, each with each of its label pairs."""
    shape = len(class_pairs), label_pairs.shape[1], 2
    pair, _, position = (x.ravel() for x in np.indices(shape, np.int32))
    every = np.broadcast_to(label_pairs, (*shape[:2], 2)).reshape(-1, 2)
    context = np.stack([class_pairs[pair], np.repeat(every, 2, axis=0)])
    query = np.take_along_axis(context, position[None, :, None], axis=2)
    classes, labels = np.concatenate([context, query], axis=2).astype(np.int32)
    numbered, tables = zip(_numbered(every), _numbered(np.sort(every, 1)), strict=True)
    label_pair, relabelling = (np.repeat(index, 2) for index in numbered)
    similarity = _similarity(data[:, exemplars[0]], class_pairs)
    groups = {
        "class_pair": pair,
        "label_pair": label_pair,
        "relabelling": relabelling,
        "correct_position": position,
        "query_class": classes[:, -1],
        "correct_label": labels[:, -1],
        "similarity": similarity[pair],
    }
    pairs = dict(zip(("label_pair", "relabelling"), tables, strict=True))
    used, places = np.unique(
        classes * data.shape[1] + exemplars.astype(np.int32), return_inverse=True
    )
    places = places.reshape(classes.shape).astype(np.int32)
    return GroupedSequences(
        Sequence(*map(jnp.asarray, (places, labels, classes))),
        data[np.divmod(used, data.shape[1])],
        groups,
        {"class_pair": class_pairs, **pairs},
    )


def _check_task(task: ExemplarLabelTask) -> None:
    instance("task", task, ExemplarLabelTask)
    context, labels = task.config.context, task.config.labels
    two = isinstance(context, Context) and context.has_two_classes
    if not two or context.length != 2:
        wanted = "contexts of two items, one of the query's class and one of another"
        raise ValueError(f"task must have {wanted}, got {context}")
    if not isinstance(labels, Relabel | ClassLabels | FlippedLabels):
        wanted = "labels Relabel, ClassLabels or FlippedLabels"
        raise ValueError(f"task must have {wanted}, got {labels}")


def _label_pairs(labels: Labels) -> Int[np.ndarray, "option 2"] | None:
    """The ordered pairs of labels, in order; `None` if the classes decide."""
    if not isinstance(labels, Relabel):
        return None
    pairs = labels.pairs()
    if pairs is None:
        pairs = _ordered_pairs(labels.num_labels, None)
    return pairs[np.lexsort(pairs.T[::-1])]


def _class_pairs(
    count: int, at_most: int | None, sequences: int, *, key: PRNGKeyArray | None
) -> Int[np.ndarray, "class_pair 2"]:
    """Ordered pairs of different classes, as positions in the part, in order."""
    total = count * (count - 1)
    some = None
    if at_most is not None:
        positive("max_class_pairs", at_most)
        if at_most < total:
            if key is None:
                raise ValueError(
                    f"max_class_pairs={at_most} draws from {total} pairs, so it needs "
                    "a key"
                )
            rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
            some = np.sort(rng.choice(total, at_most, replace=False))
            total = at_most
    if total * sequences > _MOST:
        got = f"{total} pairs of classes with {sequences} sequences each"
        raise ValueError(f"max_class_pairs must be given: there are {got}")
    return _ordered_pairs(count, some)


def _ordered_pairs(
    count: int, some: Int[np.ndarray, " pair"] | None
) -> Int[np.ndarray, "pair 2"]:
    """Pairs of different numbers (0, 1), (0, 2), …; all, or those at some places."""
    places = np.arange(count * (count - 1)) if some is None else some
    first, second = np.divmod(places, count - 1)
    return np.stack([first, second + (second >= first)], axis=-1)


def _numbered(
    pairs: Int[np.ndarray, "row 2"],
) -> tuple[Int[np.ndarray, " row"], Int[np.ndarray, "pair 2"]]:
    """The index of each row among the different pairs, and these pairs in order."""
    # Sorting takes a tenth of the time if each pair is one number.
    base = int(pairs.max()) + 1
    codes, index = np.unique(pairs[:, 0] * base + pairs[:, 1], return_inverse=True)
    return index.astype(np.int32), np.stack(np.divmod(codes, base), axis=-1)


def _similarity(
    exemplars: Float[Array, "class dim"] | Int[Array, " class"],
    pairs: Int[np.ndarray, "pair 2"],
) -> Float[np.ndarray, " pair"]:
    """The cosine between two classes' exemplars; for ids, whether they are equal."""
    vectors = np.asarray(exemplars)
    if vectors.ndim == 1:
        return (vectors[pairs[:, 0]] == vectors[pairs[:, 1]]).astype(np.float64)
    length = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    unit = vectors / np.maximum(length, np.finfo(np.float64).tiny)
    pieces = np.array_split(pairs, math.ceil(len(pairs) / _PIECE))
    return np.concatenate(
        [np.einsum("pd,pd->p", unit[a], unit[b]) for a, b in (p.T for p in pieces)]
    )
