import dataclasses
import functools
import hashlib
import math
import operator
import zlib
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from kinds import ATTENTIONS, shaken, TRANSFORMERS

import opto
from icl.models import (
    Causal,
    ContextOnly,
    Everything,
    exemplar_label_interface,
    Learned,
    LinearAttention,
    Rope,
    Sinusoidal,
    TransformerConfig,
    Window,
    with_known_exemplars,
    with_known_tokens,
)
from icl.models.encoder import EncoderConfig, InterleavedTokens, TorchWeights
from icl.presets.induction import induction
from icl.tasks.discrimination import ShiftedMean


def inputs(pairs, dim, key):
    keys = jax.random.split(key)
    examples = jax.random.normal(keys[0], (pairs + 1, dim))
    return examples, jax.random.randint(keys[1], (pairs + 1,), 0, 5)


def made(config, **interface):
    interface = exemplar_label_interface(5, **(interface or {"dim": 4}))
    return config.build(interface, key=jax.random.key(0))


KINDS = {type(kind.config).__name__: kind for kind in ATTENTIONS.values()}


def sees(mask, query, key, seq):
    """Whether a token sees another one, said once more in plain Python."""
    match mask:
        case Causal():
            return key <= query
        case Everything():
            return True
        case ContextOnly(queries):
            return key < seq - queries
        case Window(size, known):
            return key <= query and (key > query - size or {key, query} & {*known})


def seen(mask, seq):
    keys = range(seq - mask.num_queries if isinstance(mask, ContextOnly) else seq)
    return np.array([[bool(sees(mask, i, j, seq)) for j in keys] for i in range(seq)])


def kinds_of(model):
    """The oracles of each layer: the weights of each head, and what follows `z`."""
    for block in model.blocks:
        kind, row = block.attn.kind, KINDS[block.attn.kind.name]
        heads = [row.of_head(kind, head) for head in range(block.attn.num_heads)]
        yield heads, functools.partial(row.mix, kind=kind)


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("pairs", [2, 9])
def test_forward_equals_numpy_in_float64(name, pairs, getkey):
    config = TRANSFORMERS[name]
    with jax.enable_x64(True):
        model = shaken(made(config, dim=7), getkey())
        examples, labels = inputs(pairs, 7, getkey())
        logits, record = opto.run(
            model, examples, labels, record=["logits", "blocks.*.attn.pattern"]
        )
        everywhere = np.asarray(record["logits"])
    w = oracles.weights_of(model)
    seq = 2 * pairs + 1
    if isinstance(config.positions, Learned):
        w["added"] = np.asarray(model.embedding.positions.table)[:seq]
    if isinstance(config.positions, Sinusoidal):
        w["added"] = oracles.sinusoid(seq, config.d_model, config.positions.theta)
    theta = config.positions.theta if isinstance(config.positions, Rope) else None
    expected, patterns = oracles.transformer(
        np.asarray(examples),
        np.asarray(labels),
        w,
        heads=config.heads,
        kinds=[*kinds_of(model)],
        seen=[seen(mask, seq) for mask in config.seen],
        scale=config.scale,
        theta=theta,
    )
    np.testing.assert_allclose(everywhere, expected, atol=1e-9)
    np.testing.assert_allclose(np.asarray(logits), expected[::2], atol=1e-9)
    for layer, pattern in enumerate(patterns):
        ours = record[f"blocks.{layer}.attn.pattern"]
        np.testing.assert_allclose(np.asarray(ours), pattern, atol=1e-9)


def test_ids_are_looked_up(getkey):
    model = shaken(made(TransformerConfig(), num_exemplars=40), getkey())
    examples, labels = jnp.array([3, 39, 3]), jnp.array([1, 4, 1])
    expected, _ = oracles.transformer(
        np.asarray(examples),
        np.asarray(labels),
        oracles.weights_of(model),
        heads=(8, 8),
    )
    logits = eqx.filter_jit(model)(examples, labels)
    np.testing.assert_allclose(logits, expected[::2], atol=2e-5)


@pytest.mark.parametrize("num_layers", [1, 2])
def test_known_exemplars_give_the_same(num_layers, getkey):
    """Exemplar ids give the same as vectors, at every remaining site."""
    config = TransformerConfig(num_layers=num_layers, mlp_ratio=1.0)
    model = shaken(made(config, dim=7), getkey())
    table = jax.random.normal(getkey(), (4, 7))
    ids, labels = jnp.array([3, 0, 3]), jnp.array([1, 4, 0])
    sites = ["blocks.*.attn.*", "blocks.*.mlp.post", "logits"]
    wanted, record = opto.run(model, table[ids], labels, record="**")
    for known in (with_known_exemplars, with_known_tokens):
        quick = known(model, table)
        logits, found = opto.run(quick, ids, labels, record=sites)
        np.testing.assert_allclose(logits, wanted, rtol=1e-5, atol=1e-5)
        assert "blocks.0.attn.q_pre" in found
        for site in found:
            np.testing.assert_allclose(found[site], record[site], rtol=1e-4, atol=1e-5)
        unknown = quick(ids, labels.at[0].set(-1))
        assert np.isnan(np.asarray(unknown)[-1]).all()
    # The table may be longer than the longest sequence.
    added = made(TransformerConfig(positions=Learned(5)), dim=7)
    assert with_known_tokens(added, jnp.ones((20, 7))) is None


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_query_logits_are_the_last_row(name, getkey):
    model = shaken(made(TRANSFORMERS[name], dim=7), getkey())
    examples, labels = inputs(3, 7, getkey())
    np.testing.assert_allclose(
        eqx.filter_jit(model.query_logits)(examples, labels),
        eqx.filter_jit(model)(examples, labels)[-1],
        atol=2e-5,
    )


def test_the_querys_label_is_not_read(getkey):
    model = shaken(made(TransformerConfig(), dim=7), getkey())
    examples, labels = inputs(2, 7, getkey())
    other = labels.at[-1].set((labels[-1] + 1) % 5)
    assert jnp.array_equal(model(examples, labels), model(examples, other))


def test_labels_that_the_model_does_not_have_are_nan(getkey):
    model = made(TransformerConfig(), dim=7)
    examples, labels = inputs(2, 7, getkey())
    for wrong in (-1, 5, 99):
        logits = model(examples, labels.at[1].set(wrong))
        assert np.isnan(logits).all()


@pytest.mark.usefixtures("unchecked")
def test_inputs_that_do_not_fit(getkey):
    model = made(TransformerConfig(), dim=7)
    examples, labels = inputs(2, 7, getkey())
    for bad, message in (
        ((examples[:, :6], labels), "examples must have dim 7, as in training, got 6"),
        ((examples, labels[:2]), "input 1 has length 2 on the axis 'exemplar'"),
    ):
        with pytest.raises(ValueError, match=message):
            opto.run(model, *bad)


def test_the_induction_run_begins_as_it_always_did():
    """Weights and evaluation sets equal those of version 0.1.0, to the bit.

    The test draws the weights again as 0.1.0 did. It cannot compare a stored digest of
    them, because the compiled inverse error function differs under `tests/quickly`.
    Whole numbers do not depend on that.
    """
    experiment = induction()
    member = experiment.build()
    for name, digest in DRAWN.items():
        labels = np.asarray(member.evaluations[name].labels)
        assert hashlib.sha256(labels.tobytes()).hexdigest()[:16] == digest
    key = jax.random.fold_in(
        jax.random.key(experiment.init_seed), np.uint32(zlib.crc32(b"initialisation"))
    )
    lecun = jax.nn.initializers.lecun_normal(in_axis=1, out_axis=0)
    draw = jax.jit(lecun, static_argnums=1)
    embed, _, unembed, *blocks = jax.random.split(key, 5)
    drawn = [draw(jax.random.split(embed)[0], (64, 512))]
    for block in blocks:
        attn, _ = jax.random.split(block)
        drawn += [draw(part, (64, 64)) for part in jax.random.split(attn, 4)]
    drawn.append(draw(unembed, (5, 64)))
    found = [member.model.embedding.exemplar]
    for block in member.model.blocks:
        attn = block.attn
        found += [attn.query, attn.key, attn.value, attn.output]
    found.append(member.model.unembed)
    for layer, weight in zip(found, drawn, strict=True):
        np.testing.assert_array_equal(layer.weight, weight)
    assert len(jax.tree.leaves(eqx.filter(member.model, eqx.is_array))) == 19


# Digests of each evaluation set's labels, at commit 201bd24.
DRAWN = {
    "train": "f975669f4e708763",
    "heldout_labels": "9ef8a360be2c265d",
    "heldout_classes": "ba8d9d441e0e0147",
    "heldout_exemplars": "646d336fb0f11bb9",
}


def test_result_sums_to_out(getkey):
    model = made(TransformerConfig(), dim=7)
    _, record = opto.run(model, *inputs(2, 7, getkey()), record="blocks.1.attn.*")
    total = record["blocks.1.attn.result"].sum(0)
    np.testing.assert_allclose(total, record["blocks.1.attn.out"], atol=1e-6)


def test_norms_name_what_they_divide_by(getkey):
    """√(variance + ε) of what enters; held, the norm is linear."""
    config = TransformerConfig(mlp_ratio=2.0)
    model = config.build(exemplar_label_interface(5, dim=8), key=getkey())
    xs = inputs(3, 8, getkey())
    parts = {"blocks.1.attn": "blocks.1.resid_pre", "blocks.0.mlp": "blocks.0.mlp.in"}
    parts["final"] = "final.in"
    _, record = opto.run(model, *xs, record="**")
    for scope, entering in parts.items():
        stream = np.float64(record[entering])
        expected = np.sqrt(stream.var(-1) + 1e-5)
        np.testing.assert_allclose(record[f"{scope}.scale"], expected, rtol=1e-5)
        edits = [opto.Freeze("**.scale"), opto.Scale(entering, 2.0)]
        _, twice = opto.run(model, *xs, record="**.normed", edits=edits)
        normed = f"{scope}.normed"
        np.testing.assert_allclose(twice[normed], 2 * record[normed], atol=1e-5)


def test_initialisation(getkey):
    config = TransformerConfig(
        d_model=512, mlp_ratio=1.0, qkv_bias=True, init_scale=0.5
    )
    model = config.build(exemplar_label_interface(1000, dim=256), key=getkey())
    attn = model.blocks[0].attn
    projections = attn.query, attn.key, attn.value, attn.output
    for layer in (*projections, model.blocks[0].mlp.expand):
        std = 0.5 / np.sqrt(layer.weight.shape[1])
        assert abs(float(layer.weight.std()) / std - 1) < 0.02
    assert abs(float(model.embedding.exemplar.weight.std()) * 16 / 0.5 - 1) < 0.02
    table = model.embedding.label.weight
    # A normal truncated at two standard deviations has 0.8796 of the deviation.
    assert abs(float(table.std()) / (0.02 * 0.8796) - 1) < 0.02
    assert float(jnp.abs(table).max()) <= 0.04
    for bias in (attn.query.bias, model.unembed.bias, model.embedding.exemplar.bias):
        assert not jnp.any(bias)
    learned = TransformerConfig(d_model=512, positions=Learned(64))
    table = made(learned, dim=7).embedding.positions.table
    # The standard deviation of a uniform distribution in ±b is b / √3.
    assert abs(float(table.std()) * np.sqrt(3 * 32) - 1) < 0.02
    assert float(jnp.abs(table).max()) <= 1 / np.sqrt(32)
    # Each key is used once, so no two matrices are equal.
    flat = [layer.weight.ravel() for layer in projections]
    flat += [model.blocks[1].attn.query.weight.ravel()]
    correlation = np.corrcoef(np.stack(flat)) - np.eye(len(flat))
    assert np.abs(correlation).max() < 0.02


def called(config):
    return made(config)(jnp.ones((3, 4)), jnp.zeros(3, int))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TransformerConfig(num_heads=7), "num_heads must divide d_model=64"),
        (lambda: TransformerConfig(num_heads=(8,)), "or one for each; got 1 for"),
        (lambda: TransformerConfig(num_kv_heads=3), "must divide num_heads=8, got 3"),
        (lambda: TransformerConfig(num_layers=0), "num_layers must be a positive"),
        (
            lambda: TransformerConfig(mask=ContextOnly(), causal=False),
            "or causal=False, not both",
        ),
        (lambda: TransformerConfig(num_heads=64), "Rope needs an even d_head"),
        (
            lambda: made(TransformerConfig(scale=0.5, attention=LinearAttention())),
            "scale: LinearAttention has no scores, got 0.5",
        ),
        (lambda: exemplar_label_interface(5), "give either dim= .* or num_exemplars="),
        (
            lambda: called(TransformerConfig(positions=Learned(4))),
            "Learned positions end at 4 tokens, got 5",
        ),
    ],
)
def test_bad_settings(build, message):
    with pytest.raises(ValueError, match=message):
        build()


DATA = Path(__file__).parents[1].parent / "shared/data/icl_dynamics"


@pytest.mark.skipif(not DATA.exists(), reason="the reference run is not here")
def test_forward_equals_icl_dynamics():
    """Compares with weights and activations from the public code (shared/data)."""
    arrays = []
    with open(DATA / "run/checkpoints/00000064000.eqx", "rb") as file:
        for _ in range(40):
            arrays.append(np.load(file))
    arrays = [x for x in arrays if x.dtype == np.float32]
    exemplar, exemplar_bias, labels_table, *rest = arrays
    model = made(TransformerConfig(), dim=32)
    leaves = [exemplar, exemplar_bias, labels_table.T]
    for i in range(2):
        scale, offset, qkv, out = rest[4 * i : 4 * i + 4]
        leaves += [scale, offset, *np.split(qkv, 3), out]
    leaves += rest[8:12]
    template, structure = jax.tree.flatten(eqx.filter(model, eqx.is_array))
    assert [x.shape for x in leaves] == [x.shape for x in template]
    model = eqx.combine(jax.tree.unflatten(structure, leaves), model)
    saved = np.load(DATA / "activations.npz")
    out, record = opto.run(model, saved["examples"], saved["labels"], record="**")
    np.testing.assert_allclose(out, saved["out"], atol=2e-5)
    for layer in range(2):
        theirs = f"transformer_output/block_outputs/{layer}"
        ours = f"blocks.{layer}"
        for name, key in {
            f"{ours}.resid_pre": f"{theirs}/x",
            f"{ours}.attn.normed": f"{theirs}/norm_inp",
            f"{ours}.attn.q_pre": f"{theirs}/attn_output/pre_rope_q",
            f"{ours}.attn.k": f"{theirs}/attn_output/k",
            f"{ours}.attn.v": f"{theirs}/attn_output/v",
            f"{ours}.attn.pattern": f"{theirs}/attn_output/attn_scores",
            f"{ours}.attn.out": f"{theirs}/attn_output/out",
            f"{ours}.resid_post": f"{theirs}/out",
        }.items():
            expected = saved[key].reshape(record[name].shape)
            np.testing.assert_allclose(record[name], expected, atol=2e-5, err_msg=name)


def test_initial_weights_as_in_pytorch():
    """Bounds and sizes of PyTorch's documentation, for d = 64 and an MLP of 256."""
    config = EncoderConfig(d_model=64, initial=TorchWeights())
    task = ShiftedMean(dim=16)
    first, *others = config.build(task.interface, key=jax.random.key(0)).blocks
    bounds = {
        **dict.fromkeys(("attn.query", "attn.key", "attn.value"), math.sqrt(6 / 256)),
        **dict.fromkeys(("attn.output", "mlp.expand"), 1 / 8),
        "mlp.contract": 1 / 16,
    }
    for name, bound in bounds.items():
        layer = operator.attrgetter(name)(first)
        assert abs(layer.weight).max() <= bound
        assert layer.weight.std() == pytest.approx(bound / math.sqrt(3), rel=0.05)
        expected = 0 if name.startswith("attn") else bound / math.sqrt(3)
        assert layer.bias.std() == pytest.approx(expected, rel=0.25, abs=1e-9)
    for other in others:
        assert eqx.tree_equal(first, other)
    tokens = InterleavedTokens()
    config = dataclasses.replace(config, tokens=tokens, d_model=256)
    model = config.build(task.interface, key=jax.random.key(1))
    assert model.embedding.y.weight.std() == pytest.approx(1, rel=0.1)
    assert model.positions.table.std() == pytest.approx(0.02, rel=0.02)
    assert model.head.weight.std() == pytest.approx(1 / 16 / math.sqrt(3), rel=0.2)
