"""The dense set, against loops over all classes and labels."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import icl.tasks.exemplar_label.dense
from icl.batches import batch
from icl.data import LowRankClasses
from icl.presets.induction import induction
from icl.tasks.exemplar_label import (
    ClassLabels,
    Context,
    EvaluationSet,
    ExemplarLabel,
    FlippedLabels,
    QueryLabelOnContext,
    Relabel,
    Split,
)
from icl.tasks.exemplar_label.dense import dense_set, shown


def small(**changed):
    settings = {
        "class_split": Split(train=4, test=3, seed=2),
        "exemplar_split": Split(train=2, val=1, seed=None),
        "labels": Relabel(num_labels=4, split=Split(train=4, val=2)),
    }
    return ExemplarLabel(**{**settings, **changed})


DATA = np.random.default_rng(0).standard_normal((9, 3, 5)).astype(np.float32)


def rows(dense):
    """Each sequence as its classes and labels."""
    classes, labels = (
        np.asarray(x) for x in (dense.places.classes, dense.places.labels)
    )
    return [(*c, *l) for c, l in zip(classes.tolist(), labels.tolist(), strict=True)]


def every(classes, label_pairs):
    """All sequences by definition; `label_pairs` is a function of the two classes."""
    return {
        (a, b, (a, b)[at], x, y, (x, y)[at])
        for a, b in itertools.permutations(classes, 2)
        for x, y in label_pairs(a, b)
        for at in (0, 1)
    }


def check_groups(dense):
    groups, pairs = dense.groups, dense.pairs
    assert set(groups) == {
        *("class_pair", "label_pair", "relabelling", "correct_position"),
        *("query_class", "correct_label", "similarity"),
    }
    assert {x.shape for x in groups.values()} == {(len(dense),)}
    vectors = np.asarray(dense.table, np.float64)
    for i, (a, b, asked, x, y, answer) in enumerate(rows(dense)):
        here = {name: value[i] for name, value in groups.items()}
        assert pairs["class_pair"][here["class_pair"]].tolist() == [a, b]
        assert pairs["label_pair"][here["label_pair"]].tolist() == [x, y]
        assert pairs["relabelling"][here["relabelling"]].tolist() == sorted([x, y])
        assert (a, b)[here["correct_position"]] == asked == here["query_class"]
        assert (x, y)[here["correct_position"]] == answer == here["correct_label"]
        if vectors.ndim == 2:
            one, two = vectors[np.asarray(dense.places.examples[i][:2])]
            cosine = one @ two / np.sqrt((one @ one) * (two @ two))
            np.testing.assert_allclose(here["similarity"], cosine, atol=1e-7)
    for name, table in pairs.items():
        assert set(groups[name]) == set(range(len(table)))


@pytest.mark.parametrize(
    "labels", [small().labels, Relabel(num_labels=3), ClassLabels(), FlippedLabels()]
)
def test_every_sequence_once_with_its_groups(labels):
    task = small(labels=labels, noise=0.3).build(jnp.asarray(DATA))
    if isinstance(labels, Relabel):
        pairs = labels.pairs()
        table = itertools.permutations(range(3), 2) if pairs is None else pairs.tolist()
        table = [tuple(pair) for pair in table]
        label_pairs = lambda a, b: table
    elif isinstance(labels, ClassLabels):
        label_pairs = lambda a, b: [(a, b)]
    else:
        label_pairs = lambda a, b: [(b, a)]
    dense = dense_set(task)
    found, wanted = rows(dense), every(task.class_ids.tolist(), label_pairs)
    assert len(dense) == len(found) == len(set(found)) == len(wanted)
    assert set(found) == wanted
    check_groups(dense)
    examples = DATA[np.asarray(dense.places.classes), int(task.exemplar_ids[0])]
    np.testing.assert_array_equal(dense.sequences.examples, examples)
    one = jax.jit(jax.vmap(shown, (0, None)))(dense.places, dense.table)
    np.testing.assert_array_equal(one.examples, examples)
    np.testing.assert_array_equal(one.labels, dense.places.labels)


def test_the_sequences_of_the_paper():
    experiment = induction(LowRankClasses(dim=6, rank=3))
    task = experiment.task.build(jnp.asarray(experiment.data.load()))
    dense = dense_set(task)
    assert len(dense) == 50 * 49 * 16 * 2 == 78_400
    found = rows(dense)
    assert len(set(found)) == 78_400
    assert [len(table) for table in dense.pairs.values()] == [2450, 16, 8]
    counts = {
        name: np.bincount(x) for name, x in dense.groups.items() if x.dtype == int
    }
    for name in ("class_pair", "label_pair", "relabelling", "correct_position"):
        assert len(set(np.bincount(dense.groups[name]))) == 1, counts
    # Every sequence that the task draws is in the set, with the same vectors.
    drawn = jax.jit(batch, static_argnums=1)(task, 300, key=jax.random.key(3))
    place = {row: i for i, row in enumerate(found)}
    at = np.array(
        [
            place[(*c, *l)]
            for c, l in zip(drawn.classes.tolist(), drawn.labels.tolist(), strict=True)
        ]
    )
    assert len(set(at)) > 200
    np.testing.assert_array_equal(dense.sequences.examples[at], drawn.examples)
    assert sum(x.nbytes for x in jax.tree.leaves(dense.places)) < 3e6
    assert dense.table.shape == (50, 6)


def test_parts_and_exemplars():
    build = lambda **parts: EvaluationSet(**parts).of(small()).build(jnp.asarray(DATA))
    dense = dense_set(build(classes="test", relabelling="val"), query_exemplar=1)
    ids = small().class_split.part("test", 9).tolist()
    held_out = Relabel(num_labels=4, split=Split(train=4, val=2), part="val").pairs()
    assert set(rows(dense)) == every(ids, lambda a, b: map(tuple, held_out.tolist()))
    check_groups(dense)
    classes, examples = np.asarray(dense.places.classes), dense.sequences.examples
    np.testing.assert_array_equal(examples[:, :2], DATA[classes[:, :2], 0])
    np.testing.assert_array_equal(examples[:, 2], DATA[classes[:, 2], 1])
    other = dense_set(build(exemplars="val")).sequences
    np.testing.assert_array_equal(other.examples, DATA[np.asarray(other.classes), 2])


def test_data_of_ids():
    ids = np.arange(27, dtype=np.int32).reshape(9, 3) * 2
    dense = dense_set(small().build(jnp.asarray(ids)), exemplar=1)
    classes = np.asarray(dense.places.classes)
    np.testing.assert_array_equal(dense.sequences.examples, ids[classes, 1])
    assert not dense.groups["similarity"].any()
    check_groups(dense)


def test_some_class_pairs_of_many(monkeypatch):
    monkeypatch.setattr(icl.tasks.exemplar_label.dense, "_PIECE", 2)
    task = small().build(jnp.asarray(DATA))
    draw = lambda seed, most: dense_set(
        task, max_class_pairs=most, key=jax.random.key(seed)
    )
    whole, some = set(rows(dense_set(task))), draw(0, 5)
    assert len(some.pairs["class_pair"]) == 5
    assert len(some) == len(set(rows(some))) == 5 * 8 * 2
    assert set(rows(some)) < whole
    check_groups(some)
    assert rows(draw(0, 5)) == rows(some)
    seen = [{tuple(x) for x in draw(i, 5).pairs["class_pair"]} for i in range(20)]
    assert len(set.union(*seen)) == 12  # A pair is missing with 2e-5 = (7/12)^20.
    assert set(rows(draw(0, 100))) == whole


def dense(settings=None, **arguments):
    task = small(**(settings or {})).build(jnp.asarray(DATA))
    return dense_set(task, **arguments)


OWN = {"labels": ClassLabels()}
ABSENT = {"context": Context(no_support=True), "labels": QueryLabelOnContext()}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dense(exemplar=2), r"exemplar must be in \[0, 2\), got 2"),
        (lambda: dense(query_exemplar=-1), r"query_exemplar must .*, got -1"),
        (lambda: dense(max_class_pairs=3), "=3 draws from 12 pairs, so it needs a key"),
        (lambda: dense(max_class_pairs=0), "must be a positive integer, got 0"),
        (
            lambda: dense(OWN | {"context": Context(4, 2, distractor=True)}),
            "task must have contexts of two items",
        ),
        (
            lambda: dense(OWN | {"context": Context(burstiness=0)}),
            "task must have contexts of two items",
        ),
        (lambda: dense(ABSENT), "task must have contexts of two items"),
        (
            lambda: dense_set(MANY.build(jnp.zeros((12800, 1, 1)))),
            "163827200 pairs of classes with 2 sequences each",
        ),
    ],
)
def test_what_there_is_none_of(make, message):
    with pytest.raises(ValueError, match=message):
        make()


MANY = ExemplarLabel(class_split=Split(train=12800), exemplar_split=Split(train=1))
