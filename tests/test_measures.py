"""Measures, against NumPy in float64, written from the formulas."""

import dataclasses
import functools
import itertools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from jax.flatten_util import ravel_pytree
from test_metrics import expected

import opto
from icl import measures
from icl.batches import batch
from icl.data import LowRankClasses
from icl.edits import Induction
from icl.measures import (
    _hessian,
    descent,
    EachSequence,
    GroupMean,
    Measure,
    OfModel,
    SequenceMean,
    Under,
)
from icl.models import exemplar_label_interface, TransformerConfig
from icl.roles import EXEMPLAR, LABEL, QUERY
from icl.tasks.exemplar_label import Context, ExemplarLabel, Relabel, Split


HEADS = (2, 4)
LABELS = 5
CONTEXTS = {
    2: (Context(), Relabel(num_labels=LABELS)),
    6: (
        Context(length=6, burstiness=3, distractor=True),
        Relabel(num_labels=LABELS),
    ),
}


def task_of(length):
    context, labels = CONTEXTS[length]
    split = Split(train=8)
    config = ExemplarLabel(
        class_split=split, exemplar_split=split, context=context, labels=labels
    )
    data = LowRankClasses(num_classes=8, num_exemplars=8, dim=6, rank=3).load()
    return config.build(jnp.asarray(data))


@functools.cache
def model_of(layer_norm=True):
    config = TransformerConfig(
        num_layers=2, d_model=16, num_heads=HEADS, layer_norm=layer_norm
    )
    model = config.build(exemplar_label_interface(LABELS, dim=6), key=jax.random.key(1))
    # Norms, biases and label embeddings away from their initial values.
    leaves, structure = jax.tree.flatten(model)
    keys = jax.random.split(jax.random.key(2), len(leaves))
    noisy = [
        x + 0.3 * jax.random.normal(key, x.shape)
        for x, key in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(structure, noisy)


@functools.cache
def forwards(length, size=6):
    """A batch, its record and logits, and the oracle's results."""
    task, model = task_of(length), model_of()
    sequences = batch(task, size, key=jax.random.key(length))

    @jax.jit
    def all_of(sequences):
        record = ("blocks.*.attn.pattern", "tokens.*")
        return jax.vmap(lambda s: opto.visit(task.forward, model, s, record=record))(
            sequences
        )

    outputs, record = all_of(sequences)
    weights = oracles.weights_of(model)
    examples, labels = np.float64(sequences.examples), np.asarray(sequences.labels)
    by_hand = [
        oracles.transformer(x, row, weights, heads=HEADS)
        for x, row in zip(examples, labels, strict=True)
    ]
    return task, sequences, record, outputs, by_hand


def values(measure, length):
    """A measure's value for each sequence."""
    _, sequences, record, outputs, _ = forwards(length)
    return jax.device_get(jax.jit(jax.vmap(measure.fn))(record, outputs, sequences))


def attended(pattern, labels, to):
    """The last token's attention to tokens of one kind, pair by pair."""
    total, target = np.zeros(len(pattern)), labels[-1]
    if to == "query":
        return pattern[:, -1, -1]
    for pair, label in enumerate(labels[:-1]):
        which = "correct " if label == target else "incorrect "
        for kind, token in (("exemplar", 2 * pair), ("label", 2 * pair + 1)):
            if to in (kind, which + kind):
                total += pattern[:, -1, token]
    return total


def induction(pattern, labels):
    return attended(pattern, labels, "correct label") - attended(
        pattern, labels, "incorrect label"
    )


def previous(pattern, labels, queries, excess):
    last = pattern.shape[-1] - 1
    tokens = {
        "label": range(1, last, 2),
        "exemplar": range(2, last, 2),
        "query": [last],
        "all": range(1, last + 1),
    }[queries]
    rows = [pattern[:, t, t - 1] - excess / (t + 1) for t in tokens]
    return np.mean(rows, axis=0)


def query_entropy(pattern, labels):
    return -np.sum(pattern[:, -1] * np.log(pattern[:, -1]), axis=-1)


KINDS = (
    *("correct label", "incorrect label", "label", "correct exemplar"),
    *("incorrect exemplar", "exemplar", "query"),
)
OF_HEADS = {
    **{
        f"to {to}": (
            functools.partial(measures.query_attention, to),
            functools.partial(attended, to=to),
        )
        for to in KINDS
    },
    "induction": (measures.induction_strength, induction),
    **{
        f"{make.__name__} {queries}": (
            functools.partial(make, queries=queries),
            functools.partial(previous, queries=queries, excess=excess),
        )
        for make, excess in (
            (measures.previous_token_strength, 0),
            (measures.previous_token_excess, 1),
        )
        for queries in ("label", "exemplar", "query", "all")
    },
    "entropy": (measures.query_entropy, query_entropy),
    "patterns": (measures.attention_patterns, lambda pattern, labels: pattern),
}


@functools.cache
def values_of_heads(length):
    """Each head measure's values: for layer 0, for layer 1, and for both."""
    _, sequences, record, outputs, _ = forwards(length)
    made = {
        name: [make(layer=0), make(layer=1), make()]
        for name, (make, _) in OF_HEADS.items()
    }

    @jax.jit
    @jax.vmap
    def all_of(record, outputs, sequence):
        return {
            name: [measure.fn(record, outputs, sequence) for measure in some]
            for name, some in made.items()
        }

    return jax.device_get(all_of(record, outputs, sequences))


@pytest.mark.parametrize("length", CONTEXTS)
@pytest.mark.parametrize("name", OF_HEADS)
def test_measures_of_attention(name, length):
    make, oracle = OF_HEADS[name]
    _, sequences, _, _, by_hand = forwards(length)
    labels = np.asarray(sequences.labels)
    first, last = (
        np.stack(
            [oracle(p[layer], row) for (_, p), row in zip(by_hand, labels, strict=True)]
        )
        for layer in (0, 1)
    )
    *layers, both = values_of_heads(length)[name]
    got = (*layers, both[:, 0, : HEADS[0]], both[:, 1])
    for value, wanted in zip(got, (first, last) * 2, strict=True):
        np.testing.assert_allclose(value, wanted, 2e-4, 1e-5)
    assert np.isnan(both[:, 0, HEADS[0] :]).all()
    rest = "" if name != "patterns" else " query key"
    assert (make(layer=1).axes, make(layer=1).over) == ("head" + rest, SequenceMean())
    every = make(over=EachSequence())
    assert (every.axes, every.over) == ("layer head" + rest, EachSequence())
    assert every.label
    if name == "induction":
        assert np.ptp(last) > 0.2


def test_any_order_of_tokens(getkey):
    """Roles come from the sites: here labels come first and the query in the middle."""
    role = np.array([LABEL, EXEMPLAR, QUERY, EXEMPLAR, LABEL])
    pair, labels = np.array([1, 1, 2, 0, 0]), np.array([3, 4, 4])
    pattern = np.float64(jax.random.uniform(getkey(), (3, 5, 5)))
    record = opto.toolkit.Record(
        {
            "blocks.0.attn.pattern": jnp.asarray(pattern, jnp.float32),
            "tokens.role": jnp.asarray(role),
            "tokens.pair": jnp.asarray(pair),
            "tokens.label": jnp.asarray(labels),
        }
    )
    row = pattern[:, 2]
    wanted = {
        **{"correct label": row[:, 0], "incorrect label": row[:, 4]},
        **{"correct exemplar": row[:, 1], "incorrect exemplar": row[:, 3]},
        **{"label": row[:, 0] + row[:, 4], "exemplar": row[:, 1] + row[:, 3]},
        "query": row[:, 2],
    }
    assert set(wanted) == set(KINDS)
    for to, value in wanted.items():
        got = measures.query_attention(to).fn(record, None, None)
        np.testing.assert_allclose(got, value[None], rtol=1e-6)
    strength = measures.induction_strength(0).fn(record, None, None)
    np.testing.assert_allclose(strength, row[:, 0] - row[:, 4], rtol=1e-5, atol=1e-6)
    before = measures.previous_token_strength(0).fn(record, None, None)
    np.testing.assert_allclose(before, pattern[:, 4, 3], rtol=1e-6)  # Not the first.
    bits = measures.query_entropy(0).fn(record, None, None)
    np.testing.assert_allclose(bits, -(row * np.log(row)).sum(-1), rtol=1e-5)


def test_the_query_alone_is_enough():
    """If a measure needs only the query, the last row gives the same as all rows."""
    _, _, record, _, _ = forwards(6)
    whole = jax.tree.map(lambda x: x[0], record)
    row = {k: v[:, -1:] if k.endswith("pattern") else v for k, v in whole.items()}
    alone = opto.toolkit.Record(row)
    for name, (make, _) in OF_HEADS.items():
        measure = make(layer=1)
        needs_all = name == "patterns" or name.startswith("previous")
        assert measure.rows == ("all" if needs_all else "query")
        if not needs_all:
            every, one = (measure.fn(r, None, None) for r in (whole, alone))
            np.testing.assert_allclose(one, every, rtol=1e-6)


def test_layers_are_in_order_beyond_ten():
    patterns = {
        f"blocks.{i}.attn.pattern": jnp.full((1, 3, 3), float(i)) for i in range(12)
    }
    record = opto.toolkit.Record(patterns)
    got = measures.attention_patterns().fn(record, None, None)
    assert got[:, 0, 0, 0].tolist() == [*range(12)]


@pytest.mark.parametrize("length", CONTEXTS)
def test_metrics_of_the_task(length):
    task, sequences, _, _, by_hand = forwards(length)
    names = measures.metric_names(task)
    labels = np.asarray(sequences.labels).tolist()
    wanted = [
        expected(logits[-1], row[-1], row[:-1])
        for (logits, _), row in zip(by_hand, labels, strict=True)
    ]
    assert set(names) == set(wanted[0])
    assert {"loss", "accuracy", "in_context_accuracy", "probability"} < set(names)
    made = {
        name: measures.task_metric(task, name, over=EachSequence()) for name in names
    }
    all_of = lambda *args: {name: m.fn(*args) for name, m in made.items()}
    got = values(Measure(all_of), length)
    for name, measure in made.items():
        assert (measure.record, measure.text) == ((), name)
        want = [row[name] for row in wanted]
        np.testing.assert_allclose(got[name], want, 1e-4, 1e-5)


def test_groups_are_values(unchecked):
    groups = GroupMean([0, 2, -1, 0])
    assert groups == GroupMean(np.array([0, 2, -1, 0], np.int8), 3)
    assert groups.count == 3
    assert len({groups, GroupMean((0, 2, -1, 0)), GroupMean([0, 2, -1, 0], 4)}) == 2
    with pytest.raises(ValueError, match=r"index must be in \[-1, 3\), got 0…3"):
        GroupMean([0, 3], 3)
    with pytest.raises(ValueError, match=r"index must be in \[-1, 1\), got -2…0"):
        GroupMean([-2, 0])


def test_progress_measures_clamp_what_they_say():
    task, sequences, *_ = forwards(6)
    heads = [(1, 0), (1, 2)]
    match = measures.match_clamped(measures.induction_strength(), heads)
    before = measures.previous_token_clamped(
        measures.previous_token_strength(queries="all"), "0:1"
    )
    for under, at in ((match, heads), (before, [(0, 1)])):
        assert isinstance(under, Under)

        def one(sequence, under=under):
            measure, edits = under.measure, under.edits
            outputs, found = opto.visit(
                task.forward, model_of(), sequence, record=measure.record, edits=edits
            )
            return measure.fn(found, outputs, sequence)

        clamped = np.asarray(jax.jit(jax.vmap(one))(sequences))
        for layer, head in itertools.product((0, 1), range(4)):
            if (layer, head) in at:
                np.testing.assert_allclose(clamped[:, layer, head], 1, rtol=1e-6)
            elif head < HEADS[layer]:
                assert (np.abs(clamped[:, layer, head]) < 0.99).all()


def test_what_is_not_of_a_forward_has_no_edits(unchecked):
    with pytest.raises(ValueError, match="measure must be a Measure .* got OfModel"):
        Under((), measures.unembedding_biases())


def folded():
    """The weights by head, with norms folded in and the mean projected out."""
    w = oracles.weights_of(model_of())
    centred = lambda x: x - x.mean(-1, keepdims=True)
    blocks = []
    for block, heads in zip(w["blocks"], HEADS, strict=True):
        scale = block["norm"][0]
        read = lambda name, s=scale, b=block, h=heads: centred(b[name] * s).reshape(
            h, -1, 16
        )
        output = block["output"].reshape(16, heads, -1).transpose(1, 0, 2)
        q, k, v = read("query"), read("key"), read("value")
        blocks.append({"qk": q.transpose(0, 2, 1) @ k, "ov": output @ v})
    unembed = centred(w["unembed"] * w["norm"][0])
    task = task_of(2)
    data = np.float64(task.data)[np.asarray(task.class_ids), int(task.exemplar_ids[0])]
    return {
        "blocks": blocks,
        "unembed": unembed,
        "bias": w["unembed_bias"],
        "constant": w["unembed_bias"] + w["unembed"] @ w["norm"][1],
        "labels": centred(w["label_table"]),
        "exemplars": centred(data @ w["exemplar"].T + w["exemplar_bias"]),
    }


def positivity(matrix):
    eigenvalues = np.linalg.eigvals(matrix)
    return eigenvalues.sum().real / np.abs(eigenvalues).sum()


def share(reader, writer):
    norm = np.linalg.norm
    return norm(reader @ writer) / (norm(reader) * norm(writer))


def of_model(measure):
    fn = jax.jit(lambda model: measure.fn(model, task_of(2), None, ()))
    return np.asarray(fn(model_of()))


def test_scores_of_the_weights():
    w = folded()
    u, e, x = w["unembed"], w["labels"], w["exemplars"]
    copying = [[positivity(u @ ov @ e.T) for ov in b["ov"]] for b in w["blocks"]]
    matching = [[positivity(x @ qk @ x.T) for qk in b["qk"]] for b in w["blocks"]]
    close = functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4)
    for make, wanted in (
        (measures.ov_copying, copying),
        (measures.qk_matching, matching),
    ):
        every = make()
        assert every.axes == "layer head"
        got = of_model(every)
        close(got[0, :2], wanted[0])
        close(got[1], wanted[1])
        assert np.isnan(got[0, 2:]).all()
        assert make(1).axes == "head"
        close(of_model(make(1)), wanted[1])
        assert np.ptp(wanted[1]) > 0.05
    first, last = w["blocks"]
    through = [
        [positivity(x @ qk @ ov @ x.T) for ov in first["ov"]] for qk in last["qk"]
    ]
    close(of_model(measures.induction_matching()), through)
    readers = {
        "queries": [qk.T for qk in last["qk"]],
        "keys": last["qk"],
        "values": last["ov"],
    }
    # A writer's whole output; the reader's norm removes the mean.
    raw = oracles.weights_of(model_of())["blocks"][0]
    output = raw["output"].reshape(16, 2, -1).transpose(1, 0, 2)
    writers = output @ (raw["value"] * raw["norm"][0]).reshape(2, -1, 16)
    for into, reads in readers.items():
        measure = measures.composition(into)
        assert measure.axes == "head writer_head"
        close(of_model(measure), [[share(r, v) for v in writers] for r in reads])
    close(of_model(measures.unembedding_biases()), w["bias"])
    close(of_model(measures.constant_logits()), w["constant"])


def test_weights_without_norms_are_as_they_are():
    model = model_of(layer_norm=False)
    w = oracles.weights_of(model)
    block = w["blocks"][1]
    values_ = block["value"].reshape(4, -1, 16)
    output = block["output"].reshape(16, 4, -1).transpose(1, 0, 2)
    wanted = [
        positivity(w["unembed"] @ o @ v @ w["label_table"].T)
        for o, v in zip(output, values_, strict=True)
    ]
    got = measures.ov_copying(1).fn(model, task_of(2), None, ())
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(
        measures.constant_logits().fn(model, None, None, ()), model.unembed.bias
    )


def rotated(eigenvalues, seed=0):
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((len(eigenvalues),) * 2))[0]
    return (turn * eigenvalues) @ turn.T


@pytest.mark.parametrize(
    ("eigenvalues", "count", "iterations"),
    [
        (np.linspace(-3, 2, 12), 12, 12),  # All, also the negative ones.
        (np.r_[50, 9, 9, 9, np.zeros(16)], 6, 20),  # Repeated values, rank four.
        (np.r_[100.0, 50, 25, np.linspace(-1, 1, 97)], 3, 25),  # Far fewer steps.
        (np.full(8, 2.0), 8, 8),  # Each vector is an eigenvector.
        (np.zeros(5), 3, 9),
        (np.linspace(1, 2, 4), 6, 30),  # Asks for more than exist.
    ],
)
def test_eigenvalues_of_a_known_matrix(eigenvalues, count, iterations):
    matrix = jnp.asarray(rotated(eigenvalues), jnp.float32)
    found = jax.jit(
        lambda: measures.largest_eigenvalues(
            lambda v: matrix @ v, len(matrix), count, iterations, key=jax.random.key(0)
        )
    )()
    wanted = np.full(count, np.nan)
    wanted[: len(eigenvalues)] = np.sort(eigenvalues)[::-1][:count]
    scale = max(np.abs(eigenvalues).max(), 1)
    np.testing.assert_allclose(found, wanted, atol=2e-5 * scale)


def tiny():
    config = TransformerConfig(num_layers=1, d_model=4, num_heads=2)
    model = config.build(exemplar_label_interface(LABELS, dim=6), key=jax.random.key(3))
    return jax.tree.map(lambda x: 1.5 * x, model)


def test_eigenvalues_of_the_hessian():
    """Against the eigenvalues of the whole matrix, made by JAX column by column."""
    task, model = task_of(2), tiny()
    edits = (opto.Zero("blocks.0.attn.z", head=1),)
    sequences = batch(task, 7, key=jax.random.key(5))
    flat, unflatten = ravel_pytree(eqx.filter(model, eqx.is_inexact_array))

    def loss(flat):
        whole = eqx.combine(unflatten(flat), model)
        forward = opto.toolkit.lift(task.forward)
        logits = jax.vmap(lambda s: forward(whole, s, edits=edits))(sequences)
        logs = jax.nn.log_softmax(logits)
        return -jnp.mean(logs[jnp.arange(7), sequences.labels[:, -1]])

    matrix = np.float64(jax.jit(jax.hessian(loss))(flat))
    wanted = np.linalg.eigvalsh((matrix + matrix.T) / 2)[::-1][:5]
    measure = measures.hessian_eigenvalues(5, 60)
    assert measure.axes == "eigenvalue"
    found = jax.jit(lambda w, s: measure.fn(w, task, s, edits))(model, sequences)
    assert flat.size > 100
    assert wanted[4] > 1e-3 * wanted[0] > 0
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5 * wanted[0])


class Quadratic:
    """The loss of an example x is (x w + b0 + b1)² / 2."""

    def forward(self, model, example, *, tap=opto.identity):
        return example @ model["w"] + model["b"].sum()

    def metrics(self, outputs, example):
        return {"loss": outputs**2 / 2}


@pytest.mark.parametrize("piece", [3, 7, 1024])
def test_curvature_of_a_quadratic_loss(piece, monkeypatch):
    monkeypatch.setattr(_hessian, "_PIECE", piece)
    examples = np.random.default_rng(0).standard_normal((7, 4)).astype(np.float32)
    model = {"w": jnp.arange(4.0), "b": jnp.ones(2), "name": "quadratic", "count": 3}
    rows = np.concatenate([examples, np.ones((7, 2))], axis=1)
    wanted = np.linalg.eigvalsh(rows.T @ rows / 7)[::-1]
    arguments = model, Quadratic(), jnp.asarray(examples), ()
    got = measures.hessian_eigenvalues(6).fn(*arguments)
    np.testing.assert_allclose(got, wanted, atol=1e-5)
    got = measures.effective_dimension(0.3, 3).fn(*arguments)
    np.testing.assert_allclose(got, np.sum(wanted[:3] / (wanted[:3] + 0.3)), rtol=1e-5)


def test_effective_dimension():
    eigenvalues = np.array([[9.0, 1.0, -2.0, np.nan], [0.0, 0.0, 0.0, 0.0]])
    np.testing.assert_allclose(measures.dimension(eigenvalues), [0.9 + 0.5, 0])
    np.testing.assert_allclose(measures.dimension(eigenvalues[0], 3.0), 0.75 + 0.25)
    assert np.isnan(measures.dimension(np.full((2, 3), np.nan))).all()
    # As the prior becomes flat, every direction with curvature counts.
    np.testing.assert_allclose(measures.dimension(eigenvalues[0], 1e-9), 2, rtol=1e-6)
    with pytest.raises(ValueError, match="z must be positive and finite, got 0"):
        measures.dimension(eigenvalues, 0.0)
    with pytest.raises(ValueError, match="count must be a positive integer, got 0"):
        measures.hessian_eigenvalues(0)
    with pytest.raises(ValueError, match="iterations must be at least count=9, got 8"):
        measures.hessian_eigenvalues(9, 8)


TEXTS = {
    "induction_strength": measures.induction_strength(),
    "induction_strength(layer=1)": measures.induction_strength(1),
    "previous_token_excess(queries='all')": measures.previous_token_excess(
        queries="all"
    ),
    "query_attention(to='exemplar', layer=0)": measures.query_attention("exemplar", 0),
    "composition(into='values')": measures.composition("values"),
    "hessian_eigenvalues(count=3)": measures.hessian_eigenvalues(3),
    "effective_dimension(z=0.5)": measures.effective_dimension(0.5),
    "unembedding_biases": measures.unembedding_biases(),
    "descent_difference(rate=6.0, power=2.0)": descent.descent_difference(
        rate=6.0, power=2.0
    ),
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_reads_back(text):
    wanted, read = TEXTS[text], measures.parse(f" {text} ")
    assert text == wanted.text == read.text
    assert type(read) is type(wanted)
    assert (read.axes, read.label) == (wanted.axes, wanted.label)
    if isinstance(read, Measure):
        assert read.record == wanted.record
        np.testing.assert_array_equal(values(read, 2), values(wanted, 2))


def test_texts_of_metrics_and_clamps():
    task = task_of(2)
    read = measures.parse("in_context_accuracy", task)
    assert isinstance(read, Measure)
    other = measures.task_metric(task, "in_context_accuracy")
    np.testing.assert_array_equal(values(read, 2), values(other, 2))
    under = measures.parse("match_clamped(loss, heads='1:3 1:0')", task)
    assert isinstance(under, Under)
    assert repr(under.edits) == repr(
        (opto.attention.Pattern(Induction(), heads="1:3 1:0"),)
    )
    assert under.measure.text == "loss"
    under = measures.parse(
        "previous_token_clamped(induction_strength(1), heads=[[0, 1]])", task
    )
    assert under.measure.text == "induction_strength(layer=1)"
    over = dataclasses.replace(measures.induction_strength(), over=EachSequence())
    assert over.text == measures.induction_strength(over=EachSequence()).text


WRONG = {
    "inductionstrength": "no measure 'inductionstrength'; did you mean 'induction_",
    "in_context_acuracy": "no measure .*did you mean 'in_context_accuracy",
    "loss(1)": "the metric loss takes no arguments",
    "induction_strength(layr=1)": "'layr'; the form is induction_strength(layer=None)",
    "induction_strength(1, 2)": "too many positional arguments; the form is induction",
    "induction_strength(layer=1, layer=2)": "layer= is given twice",
    "induction_strength(over=3)": "character 20: over= cannot be given in a text",
    "query_attention(to='labels')": "must be one of correct label, .* got 'labels'",
    "composition(writer=1)": "writer must be a layer before reader, got 1 and 1",
    "match_clamped(loss)": "missing a required argument: 'heads'",
    "match_clamped(unembedding_biases, heads='1:3')": "of a forward, got OfModel",
    "qk_matching(": "'(' was never closed",
    "__import__('os').system('x')": "expected a measure such as",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_text_says_what_is_wrong(text, unchecked):
    message = ".*".join(re.escape(part) for part in WRONG[text].split(".*"))
    with pytest.raises(ValueError, match=message):
        measures.parse(text, task_of(2))


def test_wrong_names_without_a_task():
    with pytest.raises(ValueError, match="no measure 'loss' .no task is given"):
        measures.parse("loss")
    with pytest.raises(ValueError, match="no metric 'acuracy'; .* 'accuracy'"):
        measures.task_metric(task_of(2), "acuracy")
    with pytest.raises(ValueError, match="no metric 'zzz'; known: accuracy, "):
        measures.task_metric(task_of(2), "zzz")


def test_every_name_is_listed_and_read():
    listed = measures.names(task_of(2))
    assert "loss" in listed
    assert "induction_strength(layer=None)" in listed
    assert "match_clamped(measure, heads)" in listed
    assert set(measures.metric_names(task_of(2))) <= set(listed)
    assert set(measures.names()) < set(listed)
    assert all(line.endswith(".") and len(line) > 10 for line in listed.values())
    for text in listed:
        if "measure, heads" not in text:
            assert isinstance(measures.parse(text, task_of(2)), Measure | OfModel)


def test_strongest_heads():
    strengths = np.array([[0.1, np.nan, 0.5], [0.4, 0.9, 0.5]])
    assert measures.strongest(strengths) == [(1, 1)]
    assert measures.strongest(strengths, 3) == [(1, 1), (0, 2), (1, 2)]
    assert measures.strongest(strengths, 2, layer=0) == [(0, 2), (0, 0)]
    assert measures.strongest(strengths, 5)[-1] == (0, 0)
    edit = opto.Zero("blocks.*.attn.z", heads=measures.strongest(strengths, 2))
    assert repr(edit) == repr(opto.Zero("blocks.*.attn.z", heads="1:1 0:2"))
    for arguments, message in (
        ({"count": 6}, r"count must be in \[1, 5\], got 6"),
        ({"count": 3, "layer": 0}, r"count must be in \[1, 2\], got 3"),
        ({"count": 0}, r"count must be in \[1, 5\], got 0"),
        ({"layer": 2}, r"layer must be in \[0, 2\), got 2"),
    ):
        with pytest.raises(ValueError, match=message):
            measures.strongest(strengths, **arguments)


def test_sites_of_measures():
    some = [measures.induction_strength(1), measures.query_entropy(1)]
    tokens = ["tokens.role", "tokens.pair", "tokens.label"]
    assert measures.sites_of(some) == ["blocks.1.attn.pattern", *tokens]
    named = {"a": some[0], "b": measures.attention_patterns()}
    both = ["blocks.1.attn.pattern", *tokens, "blocks.*.attn.pattern"]
    assert measures.sites_of(named) == both
