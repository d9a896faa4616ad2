"""Tests that every task, attention and model must pass: each row of `kinds.py`."""

import dataclasses
import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kinds import ATTENTIONS, CONSTANT, MASKS, MODELS, shaken, TASKS
from tapped import Plain

import opto
from icl.batches import batch, fields_of
from icl.models import exemplar_label_interface, NoPositions, TransformerConfig
from icl.roles import LABEL


each_task = pytest.mark.parametrize("task", TASKS)
each_attention = pytest.mark.parametrize("name", ATTENTIONS)
each_model = pytest.mark.parametrize("name", MODELS)

SIZE = 64
TRACED: list[str] = []


@eqx.filter_jit
def sample_many(task, *, key):
    TRACED.append(type(task).__name__)
    return batch(task, SIZE, key=key)


@functools.cache
def case(name):
    """A model whose arrays all matter, its task, and one example."""
    kind = MODELS[name]
    keys = jax.random.split(jax.random.key(1), 3)
    task = TASKS[kind.task]()
    return shaken(kind.build(keys[0]), keys[1]), task, task.sample(key=keys[2], seen=0)


# Tasks


@each_task
def test_a_sample_is_a_function_of_the_key(task):
    make, keys = TASKS[task], [jax.random.key(seed) for seed in (7, 8)]
    out = sample_many(make(), key=keys[0])
    traced = len(TRACED)
    assert eqx.tree_equal(out, sample_many(make(), key=keys[0]))
    assert not eqx.tree_equal(out, sample_many(make(), key=keys[1]))
    assert len(TRACED) == traced > 0  # One program serves all keys.
    for name, leaf in fields_of(out):
        if name not in CONSTANT.get(task, ()):
            assert len(np.unique(leaf, axis=0)) > 1, name  # Each array is random.


@each_task
def test_jit_and_vmap_equal_eager(task):
    made, key = TASKS[task](), jax.random.key(7)
    eager = made.sample(key=jax.random.split(key, SIZE)[3], seen=0)
    fourth = jax.tree.map(lambda x: x[3], sample_many(made, key=key))
    same = functools.partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-6)
    jax.tree.map(same, eager, fourth)


# Models, called by their task


@each_model
def test_without_a_request_the_program_is_the_bare_one(name):
    model, task, example = case(name)

    def lowered(forward):
        return jax.jit(forward).lower(example).as_text()

    bare = lowered(lambda e: task.forward(model, e, tap=Plain()))
    assert lowered(lambda e: task.forward(model, e)) == bare
    assert lowered(lambda e: opto.visit(task.forward, model, e)[0]) == bare


# Edits that leave a site at its value.
IDLE = {
    "clamp": opto.Clamp,
    "patch": lambda site, value: opto.Patch(site, {site: value}),
}


@each_model
@pytest.mark.parametrize("edit", IDLE)
def test_an_edit_of_every_site_to_what_it_is_is_nothing(name, edit):
    model, task, example = case(name)

    @eqx.filter_jit
    def visit(model, held):
        edits = [IDLE[edit](site, value) for site, value in held.items()]
        return opto.visit(task.forward, model, example, record="**", edits=edits)

    outputs, record = visit(model, {})
    again, found = visit(model, dict(record))
    same = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)
    assert len(record) > 1
    same(again, outputs)
    for site in record:
        same(found[site], record[site], err_msg=site)


@each_model
def test_jit_equals_eager_with_finite_gradients(name):
    model, task, example = case(name)
    weights, rest = eqx.partition(model, eqx.is_inexact_array)

    def loss(weights):
        outputs = task.forward(eqx.combine(weights, rest), example)
        return task.metrics(outputs, example)["loss"]

    value, gradient = jax.jit(jax.value_and_grad(loss))(weights)
    assert value.shape == ()
    assert np.isfinite(value)
    np.testing.assert_allclose(value, loss(weights), rtol=1e-4)
    for leaf in jax.tree.leaves(gradient):
        assert np.isfinite(leaf).all()
        assert np.any(leaf)  # The loss depends on each array.


# Attention, within a model of one layer


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def attending(name, **settings):
    """A model with this kind of attention, its input, and all sites of its layer."""
    config = TransformerConfig(
        num_layers=1, d_model=16, num_heads=4, attention=ATTENTIONS[name].config
    )
    config = dataclasses.replace(config, **settings)
    model = shaken(
        config.build(exemplar_label_interface(5, dim=7), key=jax.random.key(0)),
        jax.random.key(1),
    )
    examples = jax.random.normal(jax.random.key(2), (4, 7))
    inputs = examples, jnp.array([0, 3, 1, 0])
    _, record = opto.run(model, *inputs, record="**")
    return model, inputs, {k.split("attn.")[-1]: v for k, v in record.items()}, record


@pytest.mark.usefixtures("x64")
@each_attention
@pytest.mark.parametrize(
    ("mask", "kv_heads"), [*zip(MASKS, itertools.cycle([None, 2])), ("causal", 2)]
)
def test_attention_is_what_its_kind_says(name, mask, kv_heads):
    mask = MASKS[mask]
    model, _, of, record = attending(name, mask=mask, num_kv_heads=kv_heads)
    kind = model.blocks[0].attn.kind
    before = {"logits": "scores", "kernel": "kernel"}[kind.before]
    assert {before} == {"scores", "kernel"} & of.keys()
    said = [record.rows_of(f"blocks.0.attn.{part}") for part in (before, "pattern")]
    assert said == [
        opto.toolkit.Rows(kind.before, kind.name),
        opto.toolkit.Rows(kind.rows, kind.name),
    ]
    pattern, seen = np.asarray(of["pattern"]), mask.seen(7, 0)
    assert pattern.shape == (4, 7, mask.keys(7))
    assert np.all(pattern[:, ~seen] == 0)
    if kind.rows == "distribution":
        np.testing.assert_allclose(pattern.sum(-1), 1, atol=1e-12)
    assert (pattern < 0).any() == (kind.rows == "signed")
    v = np.repeat(np.asarray(of["v"]), 4 // (kv_heads or 4), 0)
    np.testing.assert_allclose(of["z"], pattern @ v, atol=1e-12)
    if ATTENTIONS[name].weights:
        q, k = (
            np.asarray(of["q"]),
            np.repeat(np.asarray(of["k"]), len(v) // len(of["k"]), 0),
        )
        for head, query in np.ndindex(4, 7):
            oracle = ATTENTIONS[name].of_head(kind, head)
            row = oracle(q[head, query], k[head, seen[query]])
            np.testing.assert_allclose(
                pattern[head, query, seen[query]], row, atol=1e-12
            )


@pytest.mark.usefixtures("x64")
@each_attention
def test_circuits_are_there_where_scores_are_bilinear(name):
    model, _, of, _ = attending(name, positions=NoPositions(), num_kv_heads=2)
    attn = model.blocks[0].attn
    weights, x = attn.head_weights, np.asarray(of["normed"])
    if "z_post" in of:
        assert "result" not in of
        with pytest.raises(ValueError, match=f"ov: {attn.kind.name} has no OV circuit"):
            opto.circuits.ov(weights)
        z = np.asarray(of["z"]).swapaxes(0, 1)
        mixed = ATTENTIONS[name].mix(z, attn.kind).reshape(7, -1)
        out = mixed @ np.asarray(attn.output.weight).T
        np.testing.assert_allclose(of["out"], out, atol=1e-10)
    else:
        written = np.asarray(opto.circuits.ov(weights).product() @ x.T)
        result = np.einsum("hqk,hdk->hqd", np.asarray(of["pattern"]), written)
        np.testing.assert_allclose(result, of["result"], atol=1e-10)
    if not attn.kind.bilinear:
        with pytest.raises(ValueError, match=f"qk: {attn.kind.name} has no QK circuit"):
            opto.circuits.qk(weights)
        return
    scale = getattr(attn.kind, "scale", 1.0)
    scores = scale * x @ np.asarray(opto.circuits.qk(weights).product()) @ x.T
    found = np.asarray(of["scores" if attn.kind.before == "logits" else "kernel"])
    seen = np.tri(7, dtype=bool)
    np.testing.assert_allclose(scores[:, seen], found[:, seen], atol=1e-10)


@pytest.mark.usefixtures("x64")
@each_attention
def test_block_takes_away_before_normalisation(name):
    """As if the blocked keys did not exist: the other keys share the attention."""
    model, inputs, of, record = attending(name)
    before = "scores" if "scores" in of else "kernel"
    for strength in (1.0, 0.25):
        edit = opto.attention.Block(
            keys="label", strength=strength, site=f"**.{before}"
        )
        _, after = opto.run(model, *inputs, record="**.pattern", edits=[edit])
        label = np.asarray(record["tokens.role"]) == LABEL
        kept = np.where(label, 1 - strength, 1)
        if (epsilon := ATTENTIONS[name].epsilon) is not None:
            wanted = kept * of["kernel"]
            wanted = wanted / (wanted.sum(-1, keepdims=True) + epsilon)
        else:
            wanted = kept * of["pattern"]
            if before == "scores":
                wanted = wanted / wanted.sum(-1, keepdims=True)
        found = after["blocks.0.attn.pattern"]
        np.testing.assert_allclose(found, wanted, atol=1e-10)


@pytest.mark.usefixtures("x64")
def test_kinds_draw_the_same_projections():
    """A kind has its own random key, so the projections do not depend on the kind."""
    kinds = lambda model: [block.attn.kind for block in model.blocks]
    interface = exemplar_label_interface(5, dim=7)
    models = [
        TransformerConfig(attention=ATTENTIONS[name].config).build(
            interface, key=jax.random.key(0)
        )
        for name in ATTENTIONS
    ]
    # A kind may have arrays of its own.
    first, *others = (
        eqx.filter(eqx.tree_at(kinds, model, replace_fn=lambda _: None), eqx.is_array)
        for model in models
    )
    for other in others:
        same = zip(jax.tree.leaves(first), jax.tree.leaves(other), strict=True)
        assert all(jnp.array_equal(a, b) for a, b in same)


@pytest.mark.parametrize("name", [name for name in MODELS if MODELS[name].causal])
def test_nothing_leaks_from_the_future(name):
    model, task, example = case(name)
    inputs = task.inputs(example)
    jacobian = jax.jit(jax.jacobian(lambda x: model(x, *inputs[1:])))(inputs[0])
    # [output, …, input, …]: reduce all axes except the first of each.
    first = jacobian.ndim - inputs[0].ndim
    others = [axis for axis in range(jacobian.ndim) if axis not in (0, first)]
    size = jnp.abs(jacobian).sum(others)
    count = len(inputs[0])
    assert np.all(size[np.triu_indices(count, 1)] == 0)
    assert np.all(size[np.tril_indices(count)] > 0)
