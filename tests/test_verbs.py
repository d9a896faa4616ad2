"""Edits that know token roles, against loops in NumPy and runs by hand."""

import dataclasses
import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import softmax
from tapped import Count, Counted, Tokens

import opto
from icl.edits import CopyFromPattern, Induction, Match, PerfectPreviousToken
from icl.models import (
    exemplar_label_interface,
    Learned,
    NoPositions,
    Rope,
    Sinusoidal,
    TransformerConfig,
)
from opto import Clamp, Freeze, Patch, Scale, Zero
from opto.attention import Block, Pattern, PreviousToken, Uniform


@dataclasses.dataclass
class Case:
    """A model and a batch of sequences; in `labels`, the query's label is last."""

    config: TransformerConfig
    labels: list[list[int]]
    # Exemplars as ids; otherwise random vectors.
    ids: list[list[int]] | None = None

    @functools.cached_property
    def model(self):
        what = {"dim": 3} if self.ids is None else {"num_exemplars": 6}
        return self.config.build(
            exemplar_label_interface(6, **what), key=jax.random.key(0)
        )

    @functools.cached_property
    def inputs(self):
        labels = jnp.array(self.labels)
        if self.ids is not None:
            return jnp.array(self.ids), labels
        rng = np.random.default_rng(0)
        examples = rng.normal(size=(*labels.shape, 3))
        # In the last sequence, two context exemplars point in the query's direction.
        examples[-1, 0] = examples[-1, 1] = 2 * examples[-1, -1]
        return jnp.asarray(examples, jnp.float32), labels


# Nine heads have nine kinds of patterns, and at least one head has no edit.
CASES = {
    "two_pairs": Case(
        TransformerConfig(1, 20, 10, positions=NoPositions()),
        [[1, 0, 1], [0, 3, 3], [2, 2, 2]],
    ),
    "burstiness_two": Case(
        TransformerConfig(2, 10, 5, mlp_ratio=1.0, positions=Learned(16)),
        [[2, 0, 2, 1, 2], [4, 4, 5, 5, 4]],
    ),
    "ids": Case(
        TransformerConfig(3, 8, 4, positions=Sinusoidal(), layer_norm=False),
        [[3, 1, 3, 0, 1, 3], [2, 3, 4, 5, 0, 0]],
        [[5, 1, 5, 0, 2, 5], [0, 1, 2, 3, 4, 5]],
    ),
    "one_label": Case(
        TransformerConfig(2, 10, 5, positions=Rope()), [[4, 4, 4, 4, 4]] * 2
    ),
}


def role(i, size):
    if i == size - 1:
        return "query"
    return "label" if i % 2 else "exemplar"


def rows(roles, size):
    wanted = ["exemplar", "label", "query"] if roles == "all" else roles.split()
    return np.array([role(i, size) in wanted for i in range(size)])


# Oracles: a sequence's pattern [query, key], and which rows the kind sets.


def previous(examples, labels, weight=1.0, queries="all"):
    size = 2 * len(labels) - 1
    pattern = np.zeros((size, size))
    for i in range(size):
        pattern[i, i] += 1 if i == 0 else 1 - weight
        if i > 0:
            pattern[i, i - 1] += weight
    return pattern, rows(queries, size)


def uniform(examples, labels, queries="all"):
    size = 2 * len(labels) - 1
    pattern = [[1 / (i + 1) if j <= i else 0 for j in range(size)] for i in range(size)]
    return np.array(pattern), rows(queries, size)


def from_query(row):
    size = len(row)
    return np.broadcast_to(row, (size, size)), rows("query", size)


def induction(examples, labels, weight=1.0):
    *context, asked = labels
    own = [label == asked for label in context]
    row = np.zeros(2 * len(labels) - 1)
    for pair, is_own in enumerate(own):
        if all(own):
            row[2 * pair + 1] = 1 / len(own)
        elif is_own:
            row[2 * pair + 1] = weight / sum(own)
        else:
            row[2 * pair + 1] = (1 - weight) / (len(own) - sum(own))
    return from_query(row)


def match(examples, labels, temperature=0.0):
    *context, query = [np.asarray(x, float) for x in examples]
    if query.ndim == 0:
        cosines = np.array([float(x == query) for x in context])
    else:
        norm = lambda x: math.sqrt(sum(x**2))
        cosines = np.array([x @ query / norm(x) / norm(query) for x in context])
    row = np.zeros(2 * len(labels) - 1)
    if temperature:
        row[1::2] = softmax(cosines / temperature)
    else:
        nearest = np.isclose(cosines, cosines.max(), atol=1e-5)
        row[1::2] = nearest / nearest.sum()
    return from_query(row)


# A kind, its oracle, and the settings of both.
KINDS = [
    (PreviousToken, previous, dict(weight=0.7)),
    (PreviousToken, previous, dict(weight=0.3, queries="label")),
    (Induction, induction, {}),
    (Induction, induction, dict(weight=0.8)),
    (Induction, induction, dict(weight=0.0)),
    (Match, match, {}),
    (Match, match, dict(temperature=0.3)),
    (Uniform, uniform, {}),
    (Uniform, uniform, dict(queries="exemplar query")),
]


@pytest.mark.parametrize("name", CASES)
def test_patterns(name):
    """The set rows have the kind's pattern; all others are the scores' softmax."""
    case = CASES[name]
    layers = case.config.num_layers
    places = [(i % layers, i // layers) for i in range(len(KINDS))]
    for strength in (1.0, 0.4):
        edits = [
            Pattern(kind(**settings), heads=[place], strength=strength)
            for (kind, _, settings), place in zip(KINDS, places, strict=True)
        ]
        record = opto.run(
            case.model, *case.inputs, record=["**.scores", "**.pattern"], edits=edits
        )[1]
        scores = np.stack([record[f"blocks.{i}.attn.scores"] for i in range(layers)])
        ours = np.stack([record[f"blocks.{i}.attn.pattern"] for i in range(layers)])
        expected = softmax(scores.astype(float))
        assert expected.shape[2] * layers > len(KINDS)
        for i, sequence in enumerate(zip(*case.inputs, strict=True)):
            for kind, (layer, head) in zip(KINDS, places, strict=True):
                _, oracle, settings = kind
                pattern, meant = oracle(*map(np.asarray, sequence), **settings)
                old = expected[layer, i, head, meant]
                blend = (1 - strength) * old + strength * pattern[meant]
                expected[layer, i, head, meant] = blend
        np.testing.assert_allclose(ours, expected, atol=1e-5)
        np.testing.assert_allclose(ours.sum(-1), 1, atol=1e-5)


# For each head, the attention that is forbidden, in order.
BLOCKS = [
    [dict(distance=1)],
    [dict(distance=0, queries="label")],
    [dict(distance=2, keys="label", strength=0.5)],
    [dict(keys="exemplar")],
    [dict(queries="query", keys="exemplar query")],
    [dict(queries="label query", keys="label", strength=0.999)],
    [dict(distance=1), dict(distance=0, strength=0.5)],
    [dict(keys="label"), dict(keys="exemplar query", queries="label")],
]


def blocked(scores, blocks):
    """One head's attention under these edits, entry by entry."""
    size = len(scores)
    pattern = np.exp(scores - scores.max(1, keepdims=True))
    for block in blocks:
        queries, keys = (rows(block.get(k, "all"), size) for k in ("queries", "keys"))
        for i, j in np.ndindex(size, size):
            if queries[i] and keys[j] and block.get("distance", i - j) == i - j:
                pattern[i, j] *= 1 - block.get("strength", 1.0)
    with np.errstate(invalid="ignore"):
        return pattern / pattern.sum(1, keepdims=True)


def test_block():
    """A row with no key left, such as the first token's, is NaN."""
    config = TransformerConfig(1, 16, 8)
    case = Case(config, [[2, 0, 2, 1, 2], [4, 4, 5, 5, 4]])
    edits = [
        Block(heads=[(0, head)], **block)
        for head, blocks in enumerate(BLOCKS)
        for block in blocks
    ]
    _, before = opto.run(case.model, *case.inputs, record="**.scores")
    _, after = opto.run(case.model, *case.inputs, record="**.pattern", edits=edits)
    scores = np.asarray(before["blocks.0.attn.scores"], float)
    pattern = np.asarray(after["blocks.0.attn.pattern"])
    for i, head in np.ndindex(2, len(BLOCKS)):
        expected = blocked(scores[i, head], BLOCKS[head])
        np.testing.assert_allclose(pattern[i, head], expected, atol=1e-6)
        empty = {3: [0], 7: [1, 3, 5, 7]}.get(head, [])
        assert np.flatnonzero(np.isnan(pattern[i, head]).all(1)).tolist() == empty


def test_single_entries_of_a_pattern():
    """Sets the entries that both the mask and the kind's rows select."""
    mask = np.zeros((1, 5, 5), bool)
    mask[0, [1, 1, 2, 3], [0, 1, 1, 4]] = True
    edit = Pattern(PreviousToken(0.75, queries="label"), mask=mask)
    even = np.tri(5) / np.arange(1, 6)[:, None]
    ours, _ = opto.run(Tokens(), jnp.array([1, 0, 1]), edits=[edit])
    expected = even.copy()
    expected[1, :2], expected[3, 4] = [0.75, 0.25], 0
    np.testing.assert_allclose(ours[0], expected, atol=1e-6)
    edits = [Block(keys="exemplar", mask=mask), Block(distance=0, mask=mask)]
    ours, _ = opto.run(Tokens(), jnp.array([1, 0, 1]), edits=edits[:1])
    expected = even.copy()
    expected[1] = [0, 1, 0, 0, 0]
    np.testing.assert_allclose(ours[0], expected, atol=1e-6)


# The other verbs, in a model of two layers and one of three.

ONE = Case(TransformerConfig(1, 4, 2), [[2, 0, 2], [1, 0, 2], [0, 1, 4], [3, 1, 1]])
TWO = Case(TransformerConfig(2, 8, 2), [[2, 0, 2, 1, 2]])
THREE = Case(TransformerConfig(3, 4, 2), [[3, 1, 0, 3, 3]])


def one(case):
    """The model and its first sequence."""
    return case.model, *(x[0] for x in case.inputs)


def copied(scores, labels, num_labels=6):
    """The logits from one head's query scores."""
    logits = np.full(num_labels, -1e9)
    for label in labels[:-1]:
        at = [2 * i + 1 for i, other in enumerate(labels[:-1]) if other == label]
        logits[label] = math.log(sum(math.exp(scores[-1, j]) for j in at))
    return logits


def test_copy_from_pattern():
    model, *inputs = one(TWO)
    copies = {
        "first_layer": ([], [], "0:0"),
        "after_an_edit": ([Zero("blocks.0.attn.z", head=1)], [], "1:0"),
        "both": (
            [Freeze("blocks.0.attn.v"), Scale("blocks.0.attn.z", 2.0)],
            [Pattern(PreviousToken(), heads="0:0"), Zero("blocks.0.attn.v", head=1)],
            "1:1",
        ),
    }
    later = Zero("blocks.1.attn.scores")

    @jax.jit
    def runs(inputs):
        visit = functools.partial(opto.visit, model, *inputs)
        return {
            name: (
                visit(
                    edits=[*before, CopyFromPattern(heads=heads, edits=own), later],
                    record=["blocks.0.resid_post"],
                ),
                visit(edits=before, record=["blocks.0.resid_post"]),
                visit(edits=[*before, *own], record="**.scores")[1],
            )
            for name, (before, own, heads) in copies.items()
        }

    found = {}
    for name, ((logits, seen), (_, before), record) in runs(inputs).items():
        layer, head = map(int, copies[name][2].split(":"))
        scores = np.asarray(record[f"blocks.{layer}.attn.scores"][head], float)
        found[name] = copied(scores, TWO.labels[0])
        np.testing.assert_allclose(logits[-1], found[name], rtol=1e-5)
        assert np.count_nonzero(found[name] == -1e9) == 3
        # Its own edits affect only that head; other tokens keep the model's logits.
        assert np.all(logits[:-1] > -100)
        site = "blocks.0.resid_post"
        np.testing.assert_allclose(seen[site], before[site], atol=1e-6)
    values = np.stack([logits[:3] for logits in found.values()])
    assert len(np.unique(np.round(values, 4), axis=0)) == len(copies)


def test_copy_from_pattern_in_part():
    model, *inputs = one(TWO)
    run = lambda s: opto.run(
        model, *inputs, edits=[CopyFromPattern(heads="1:0", strength=s)]
    )[0]
    none, half, full = jax.jit(run)(0.0), run(0.5), run(1.0)
    np.testing.assert_allclose(none, model(*inputs), atol=1e-6)
    np.testing.assert_allclose(half, (none + full) / 2, rtol=1e-5)


@pytest.mark.parametrize("layer", [1, 2])
def test_perfect_previous_token(layer):
    """Equals the two passes by hand."""
    model, *inputs = one(THREE)
    stream, scores = f"blocks.{layer}.resid_pre", f"blocks.{layer}.attn.scores"
    sites = [stream, scores, "**.pattern"]

    @jax.jit
    def by_hand(strength, inputs):
        visit = functools.partial(opto.visit, model, *inputs)
        embed = visit(record="embed")[1]["embed"]
        shifted = embed.at[1:-1].set(embed[:-2])
        record = visit(edits=[Clamp(stream, shifted)], record=scores)[1]
        edits = [
            Clamp(stream, embed, strength=strength),
            Clamp(scores, record[scores], strength=strength),
        ]
        ours = PerfectPreviousToken(layer, strength=strength)
        before = Zero("blocks.0.attn.z", head=1)
        return [
            visit(record=sites, edits=[before, *edits]) for edits in (edits, [ours])
        ]

    for strength in (1.0, 0.6, 0.0):
        expected, ours = by_hand(strength, inputs)
        for a, b in zip(*map(jax.tree.leaves, (ours, expected)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


# Frozen values.


def test_freeze_holds_what_comes_after_an_ablation():
    """Equals clamps to the recorded values, in both orders, with a zeroed value."""
    model, *inputs = one(THREE)
    ablate, zero = Zero("blocks.0.attn.z", head=1), Zero("blocks.1.attn.v", head=0)
    freeze = Freeze("blocks.*.attn.pattern", layer=[1, 2])
    values = Freeze("**.v", heads="1:0 1:1", pos=[0, 1], strength=0.7)

    @jax.jit
    def runs(inputs):
        record = ["blocks.0.attn.z", "**.pattern", "**.v", "blocks.2.attn.q"]
        visit = functools.partial(opto.visit, model, *inputs, record=record)
        before = visit()[1]
        held = [Clamp(f"blocks.{i}.attn.pattern", _at(before, i)) for i in (1, 2)]
        v = Clamp(
            *("blocks.1.attn.v", before["blocks.1.attn.v"]), pos=[0, 1], strength=0.7
        )
        lists = {
            "before": ([freeze, ablate], [*held, ablate]),
            "after": ([ablate, freeze], [ablate, *held]),
            "zeroed": ([ablate, values, zero], [ablate, v, zero]),
        }
        return before, {
            name: [visit(edits=edits) for edits in pair] for name, pair in lists.items()
        }

    before, found = runs(inputs)
    for name, (ours, expected) in found.items():
        for a, b in zip(*map(jax.tree.leaves, (ours, expected)), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5, err_msg=name)
    record = found["before"][0][1]
    np.testing.assert_array_equal(_at(record, 2), _at(before, 2))
    assert not np.any(record["blocks.0.attn.z"][1])
    q = "blocks.2.attn.q"
    assert np.abs(record[q] - before[q]).max() > 1e-3
    assert np.abs(found["before"][0][0] - model(*inputs)).max() > 1e-3


def _at(record, layer):
    return record[f"blocks.{layer}.attn.pattern"]


def test_the_gradient_through_frozen_values():
    """Queries get no gradient if patterns are constants; values still do."""
    model, *inputs = one(TWO)

    @eqx.filter_jit
    def slopes(model):
        lists = (
            [],
            [Freeze("**.pattern")],
            [Freeze("**.pattern", stop_gradient=True)],
        )
        loss = lambda model, edits: opto.toolkit.lift(model)(*inputs, edits=edits)[
            -1, 0
        ]
        return [eqx.filter_grad(loss)(model, edits).blocks for edits in lists]

    for free, frozen, stopped in zip(*slopes(model), strict=True):
        assert np.any(np.asarray(stopped.attn.value.weight))
        for name in ("query", "key"):
            whole, same, none = (
                getattr(block.attn, name).weight for block in (free, frozen, stopped)
            )
            assert np.any(np.asarray(whole))
            np.testing.assert_allclose(same, whole, atol=1e-6)
            np.testing.assert_array_equal(none, 0)


# Nothing at strength 0.


def off(zero):
    return [
        Pattern(Induction(0.8), strength=zero),
        Block(queries="query", keys="label", strength=zero),
        PerfectPreviousToken(strength=zero),
        Pattern(Match(0.3), strength=zero),
        Pattern(PreviousToken(0.7), strength=zero),
        CopyFromPattern(heads="1:0", strength=zero),
        Freeze("**.attn.*", strength=zero),
        Scale("**.scores", 3.0, strength=zero),
    ]


def test_strength_0_is_nothing_to_the_bit():
    model, *inputs = one(TWO)
    visit = functools.partial(
        opto.visit, model, *inputs, record=["**.scores", "**.pattern", "logits"]
    )
    with jax.disable_jit():
        # A known strength of 0 would be refused.
        ours = jax.vmap(lambda zero: visit(edits=off(zero)[:3]))(jnp.zeros(1))
        for a, b in zip(*map(jax.tree.leaves, (ours, visit())), strict=True):
            np.testing.assert_array_equal(a[0], b)


def test_strength_0_is_nothing_compiled():
    """Also if the pattern is impossible and NaN."""
    model, examples, labels = one(TWO)
    lifted = opto.toolkit.lift(model)
    run = jax.jit(lambda labels, zero: lifted(examples, labels, edits=off(zero)))
    expected = model(examples, labels)
    np.testing.assert_allclose(run(labels, 0.0), expected, atol=1e-6)
    np.testing.assert_allclose(run(labels.at[-1].set(5), 0.0), expected, atol=1e-6)


# Impossible patterns.


def test_a_query_whose_label_is_not_in_the_context():
    """`run` raises; a compiled program gives NaN in that row only."""
    model, edits = Tokens(), [Pattern(Induction(0.9))]
    labels = jnp.array([[2, 0, 2], [1, 0, 2], [0, 1, 4], [3, 1, 1]])
    message = r"Induction\(\) cannot apply: .* not in the context \(in 2 of 4 sequences"
    with pytest.raises(ValueError, match=message):
        opto.run(model, labels, edits=edits)
    with pytest.raises(ValueError, match=r"\(in 4 of 6 sequences"):
        opto.run(model, labels[jnp.array([[0, 1, 1], [2, 2, 3]])], edits=edits)
    for look in (opto.run, opto.visit):
        with pytest.raises(ValueError, match=r"\(in 1 of 1 sequences\)"):
            look(model, labels[1], edits=edits)
    lifted = functools.partial(opto.toolkit.lift(model), edits=edits)
    nans = np.isnan(jax.jit(jax.vmap(lifted))(labels))
    assert nans[:, 0, -1].all(1).tolist() == [False, True, True, False]
    assert not nans[:, :, :-1].any()
    # Such errors are also found in a donor, and in a head that is copied.
    within = [opto.Graft(ONE.model, until=0, edits=[Pattern(Induction())])]
    with pytest.raises(ValueError, match=r"Induction.*\(in 2 of 4 sequences\)"):
        opto.run(ONE.model, *ONE.inputs, edits=within)


def test_a_query_without_a_context():
    model, *inputs = one(ONE)
    alone = [x[-1:] for x in inputs]
    with pytest.raises(ValueError, match=r"Match\(\) cannot apply: no pair in the con"):
        opto.run(model, *alone, edits=[Pattern(Match(), head=1)])
    for kind in (PreviousToken(), Uniform()):
        with pytest.warns(opto.NoEffectWarning):
            pattern, _ = opto.run(Tokens(), alone[1], edits=[Pattern(kind)])
        np.testing.assert_array_equal(pattern, np.ones((1, 1, 1)))


# Many at once.


def last(logits, *inputs):
    return logits[-1]


def close(ours, expected):
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)


HEADS = [(0, 0), (0, 1), (1, 0), (1, 1)]

EACH = {
    "pattern": lambda **k: [Pattern(Induction(0.9), **k)],
    "block": lambda **k: [Block(distance=1, **k)],
    "freeze": lambda **k: [Zero("blocks.0.attn.z", head=1), Freeze("**.pattern", **k)],
    "scale": lambda **k: [Scale("**.scores", 0.3, **k)],
    "copy": lambda **k: [CopyFromPattern(**k)],
}


@pytest.mark.filterwarnings("ignore::opto.NoEffectWarning")  # Some of `freeze`.
@pytest.mark.parametrize("name", EACH)
def test_each_head_equals_a_loop(name):
    """One program for all heads and strengths."""
    model, *inputs = one(TWO)
    *fixed, edit = EACH[name]()
    count = Count()
    counted = Counted(model, count)
    sweep = functools.partial(opto.sweep, last, counted, *inputs)
    ours = sweep(edits=[*fixed, edit.each("layer", "head")])
    alone = lambda *head: opto.run(model, *inputs, edits=EACH[name](heads=[head]))[0]
    expected = np.stack([alone(*head)[-1] for head in HEADS])
    close(ours.reshape(4, -1), expected)
    assert ours.shape[:2] == (2, 2)
    assert len(np.unique(np.round(expected, 4), axis=0)) >= 3
    traced = len(count)
    half = sweep(edits=[*fixed, EACH[name](strength=0.5)[-1].each("layer", "head")])
    assert np.abs(half - ours).max() > 1e-4
    assert len(count) == traced


def test_stack_of_different_kinds_and_sites_equals_a_loop():
    model, *inputs = one(TWO)
    different = [
        Zero("blocks.0.attn.z", head=1),
        Scale("blocks.*.attn.scores", 3.0, strength=0.5),
        Pattern(Match(0.2), heads="1:0"),
        Block(queries="query", keys="exemplar query", layer=1),
        CopyFromPattern(heads="1:1", edits=[Zero("embed", pos=0)]),
        PerfectPreviousToken(),
    ]
    before, after = Zero("blocks.1.attn.v", head=0), Scale("final.in", 1.5)

    @jax.jit
    def loop(inputs):
        lift = functools.partial(opto.toolkit.lift(model), *inputs)
        return jnp.stack([lift(edits=[before, e, after])[-1] for e in different])

    count = Count()
    counted = Counted(model, count)
    edits = [before, opto.stack(different), after]
    ours = opto.sweep(last, counted, *inputs, edits=edits)
    expected = loop(inputs)
    close(ours, expected)
    assert len(np.unique(np.round(expected, 4), axis=0)) == len(different)
    traced = len(count)
    again = opto.stack([Zero("blocks.0.attn.z", head=0), *different[1:]])
    others = opto.sweep(last, counted, *inputs, edits=[before, again, after])
    close(others[1:], expected[1:])
    assert np.abs(others[0] - expected[0]).max() > 1e-4
    assert len(count) == traced


@pytest.mark.usefixtures("unchecked")
def test_swept_edits_within_an_edit():
    model, *inputs = one(TWO)
    other = jax.tree.map(lambda x: -x if eqx.is_inexact_array(x) else x, model)
    zero = Zero("blocks.*.attn.z").each("layer", "head")
    pair = opto.stack([Scale("embed", 0.5), Scale("embed", 2.0)])
    edits = [CopyFromPattern(heads="1:1", edits=[pair, zero])]
    ours = opto.sweep(last, model, *inputs, edits=edits)
    assert ours.shape == (2, 2, 2, 6)
    for i, scale in enumerate((0.5, 2.0)):
        for layer, head in ((0, 1), (1, 0)):
            own = [
                Scale("embed", scale),
                Zero("blocks.*.attn.z", heads=[(layer, head)]),
            ]
            # In layer 1, `z` comes after the scores and cannot change them.
            copy = CopyFromPattern(heads="1:1", edits=own[: 2 - layer])
            expected = opto.run(model, *inputs, edits=[copy])[0][-1]
            close(ours[i, layer, head], expected)
    graft = opto.Graft(other, until=0, edits=[Zero("blocks.0.attn.z").each("head")])
    ours = opto.sweep(last, model, *inputs, edits=graft)
    for head in range(2):
        edits = [opto.Graft(other, until=0, edits=[Zero("blocks.0.attn.z", head=head)])]
        close(ours[head], opto.run(model, *inputs, edits=edits)[0][-1])


def test_a_batch_under_swept_verbs():
    """The pattern differs from sequence to sequence."""
    case = CASES["one_label"]
    labels = jnp.array([[2, 0, 2, 1, 0], [1, 1, 3, 3, 3]])
    inputs = case.inputs[0], labels
    edit = Pattern(Induction(), layer=1).each("head")
    metric = lambda logits, *inputs: logits[:, -1]
    ours = opto.sweep(metric, case.model, *inputs, edits=edit, chunk=2)
    for head in (0, 4):
        edits = [Pattern(Induction(), heads=[(1, head)])]
        close(ours[head], opto.run(case.model, *inputs, edits=edits)[0][:, -1])
    _, record = opto.run(case.model, *inputs, record="**.z")
    patches = opto.sweep(
        metric, case.model, *inputs, edits=Patch("**.z", record).each("head")
    )
    plain = opto.run(case.model, *inputs)[0][:, -1]
    close(patches, np.broadcast_to(plain, patches.shape))
