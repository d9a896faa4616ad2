"""The logit lens and direct logit attribution, against NumPy by hand."""

import functools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kinds import shaken
from tapped import Count, Counted

import opto
from icl.models import (
    exemplar_label_interface,
    Learned,
    Sinusoidal,
    TransformerConfig,
)
from opto.lens import direct_logits, logit_bias, logit_lens, logit_terms


LABELS, DIM, D_MODEL = 4, 3, 12

CONFIGS = {
    "mlp": TransformerConfig(2, D_MODEL, 3, mlp_ratio=2.0, qkv_bias=True),
    "no_norm": TransformerConfig(2, D_MODEL, 3, mlp_ratio=1.0, layer_norm=False),
    "heads": TransformerConfig(3, D_MODEL, (2, 1, 6), positions=Learned(9)),
    "sinusoidal": TransformerConfig(1, D_MODEL, 2, positions=Sinusoidal()),
}


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def build(name, seed=0):
    """A model whose norms and biases differ from their initial values."""
    return _built(name, seed, jax.config.jax_enable_x64)


@functools.cache
def _built(name, seed, _):
    interface = exemplar_label_interface(LABELS, dim=DIM)
    # Compiled, because initialisation otherwise takes seconds.
    model = eqx.filter_jit(CONFIGS[name].build)(interface, key=jax.random.key(seed))
    return shaken(model, jax.random.key(1))


def batch(*shape):
    rng = np.random.default_rng(0)
    examples = jnp.asarray(rng.normal(size=(*shape, 3, DIM)))
    return examples, jnp.asarray(rng.integers(0, LABELS, (*shape, 3)), jnp.int32)


def numpy_logits(model, stream):
    """The logits of a residual stream, by the final norm and the unembedding."""
    x = np.asarray(stream, np.float64)
    if isinstance(model.final_norm, eqx.nn.LayerNorm):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        x = x * np.asarray(model.final_norm.weight) + np.asarray(model.final_norm.bias)
    return x @ np.asarray(model.unembed.weight).T + np.asarray(model.unembed.bias)


def logits_of(model, *inputs, edits=()):
    return opto.run(model, *inputs, record="logits", edits=edits)[1]["logits"]


# The lens.


@pytest.mark.parametrize(
    ("name", "shape"), [("mlp", (2, 3)), ("no_norm", (5,)), ("heads", ())]
)
def test_the_lens_reads_each_stream_as_the_last(name, shape):
    model, inputs = build(name), batch(*shape)
    values, names = logit_lens(model, *inputs)
    layers = CONFIGS[name].num_layers
    assert names == tuple(f"blocks.{i}.resid_post" for i in range(layers))
    assert values.shape == (layers, *shape, 5, LABELS)
    _, record = opto.run(model, *inputs, record=names)
    expected = [numpy_logits(model, record[site]) for site in names]
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(values[-1], logits_of(model, *inputs), atol=1e-5)


def test_the_lens_takes_any_streams_in_order():
    model, inputs = build("mlp"), batch(4)
    sites = ["blocks.1.resid_mid", "embed", "**.resid_pre"]
    values, names = logit_lens(model, *inputs, sites=sites)
    pre = "blocks.0.resid_pre", "blocks.1.resid_pre", "blocks.1.resid_mid"
    assert names == ("embed", *pre)
    np.testing.assert_array_equal(values[0], values[1])  # Nothing lies in between.


def test_the_lens_under_edits():
    """Earlier edits change the stream; edits after the norm apply to all streams."""
    model, inputs = build("mlp"), batch(4)
    ahead = opto.Zero("blocks.0.attn.z", head=1)
    after = opto.Scale("final.normed", 0.5)
    values, names = logit_lens(model, *inputs, edits=[ahead, after])
    _, record = opto.run(model, *inputs, record=names, edits=[ahead])
    bias = np.asarray(model.unembed.bias)
    expected = [
        0.5 * (numpy_logits(model, record[site]) - bias) + bias for site in names
    ]
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-4)
    plain, _ = logit_lens(model, *inputs, edits=[opto.Zero("final.in")])
    np.testing.assert_allclose(plain, logit_lens(model, *inputs)[0], atol=1e-6)


def test_the_lens_of_a_graft_is_that_of_what_computes_the_logits():
    model, inputs = build("no_norm"), batch(4)
    edits = [opto.Graft(build("no_norm", seed=7), from_=1)]
    values, _ = logit_lens(model, *inputs, sites="**.resid_post", edits=edits)
    expected = logits_of(model, *inputs, edits=edits)
    np.testing.assert_allclose(values[-1], expected, rtol=1e-5, atol=1e-5)


def test_the_lens_compiles_once_for_all_values_of_edits():
    count = Count()
    counted, traced = Counted(build("sinusoidal"), count), set()
    for head in (0, 1):
        edits = [opto.Zero("blocks.0.attn.z", head=head)]
        logit_lens(counted, *batch(4), edits=edits)
        traced.add(len(count))
    assert len(traced) == 1


# Direct logit attribution.


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", CONFIGS)
def test_terms_sum_to_the_logits(name):
    model, inputs = build(name), batch(4)
    values, names = logit_terms(model, *inputs)
    config = CONFIGS[name]
    expected = ["embed"]
    for layer, heads in enumerate(config.heads):
        expected += [f"{layer}:{head}" for head in range(heads)]
        expected += [f"mlp {layer}"] * (config.mlp_ratio is not None)
    assert names == (*expected, "rest", "bias")
    assert values.dtype == jnp.float64
    np.testing.assert_allclose(values.sum(0), logits_of(model, *inputs), atol=1e-12)
    # The named writers account for the whole stream.
    np.testing.assert_allclose(values[names.index("rest")], 0, atol=1e-12)


def test_terms_in_float32_and_for_any_batch():
    model, inputs = build("mlp"), batch(2, 3)
    values, names = logit_terms(model, *inputs)
    assert values.shape == (len(names), 2, 3, 5, LABELS)
    logits = logits_of(model, *inputs)
    np.testing.assert_allclose(values.sum(0), logits, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["mlp", "no_norm"])
def test_a_heads_term_is_its_direct_path(name):
    """In NumPy, from the formula W_U diag(g) (I - 1/d) W_O z / sigma."""
    model, inputs = build(name), batch()
    values, names = logit_terms(model, *inputs)
    sites = ["embed", "final.in", "blocks.1.attn.z", "blocks.0.mlp.out"]
    _, record = opto.run(model, *inputs, record=sites)
    width = D_MODEL // 3
    output = np.asarray(model.blocks[1].attn.output.weight)[:, 2 * width :]
    parts = {
        "embed": np.asarray(record["embed"]),
        "1:2": np.asarray(record["blocks.1.attn.z"])[2] @ output.T,
        "mlp 0": np.asarray(record["blocks.0.mlp.out"]),
    }
    unembed, bias = np.asarray(model.unembed.weight), np.asarray(model.unembed.bias)
    for part, written in parts.items():
        expected = written
        if name == "mlp":
            sigma = np.sqrt(np.asarray(record["final.in"]).var(-1) + 1e-5)
            centred = written - written.mean(-1, keepdims=True)
            scale = np.asarray(model.final_norm.weight)
            expected = centred / sigma[:, None] * scale
        term = values[names.index(part)]
        np.testing.assert_allclose(term, expected @ unembed.T, atol=1e-12)
    if name == "mlp":
        bias = bias + unembed @ np.asarray(model.final_norm.bias)
    np.testing.assert_allclose(values[-1], np.tile(bias, (5, 1)), atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_terms_of_neurons():
    model, inputs = build("mlp"), batch(4)
    weights = {
        f"blocks.{i}.mlp.post": block.mlp.contract.weight
        for i, block in enumerate(model.blocks)
    }
    values, names = logit_terms(model, *inputs, neurons=weights)
    np.testing.assert_allclose(values.sum(0), logits_of(model, *inputs), atol=1e-12)
    _, record = opto.run(model, *inputs, record=["blocks.1.mlp.post", "final.in"])
    written = record["blocks.1.mlp.post"][..., 5:6] * weights["blocks.1.mlp.post"][:, 5]
    ends = record["final.in"], model.final_norm, model.unembed
    expected = direct_logits(written, *ends)
    np.testing.assert_allclose(values[names.index("mlp 1:5")], expected, atol=1e-12)
    # What is left of the MLP is its output bias.
    bias = direct_logits(model.blocks[1].mlp.contract.bias, *ends)
    np.testing.assert_allclose(values[names.index("mlp 1")], bias, atol=1e-12)
    size = {n: float(jnp.mean(x**2)) for n, x in zip(names, values, strict=True)}
    largest = sorted((n for n in names if "mlp 0:" in n), key=size.__getitem__)[-3:]
    fewer, kept = logit_terms(model, *inputs, neurons=weights, top=3)
    assert {n for n in kept if "mlp 0:" in n} == {*largest}
    np.testing.assert_allclose(fewer.sum(0), values.sum(0), atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_positions_are_in_the_term_of_the_embedding():
    model, inputs = build("heads"), batch()
    _, record = opto.run(model, *inputs, record=["tok_embed", "final.in"])
    embedded = record["tok_embed"] + model.embedding.positions.table[:5]
    values, _ = logit_terms(model, *inputs)
    layers = model.final_norm, model.unembed
    expected = direct_logits(embedded, record["final.in"], *layers)
    np.testing.assert_allclose(values[0], expected, atol=1e-12)


STEER = np.linspace(-1, 1, D_MODEL)

EDITS = {
    "head": lambda: [opto.Zero("blocks.0.attn.z", head=1)],
    "stream": lambda: [opto.Steer("blocks.0.resid_post", STEER, axes="d_model")],
    "end": lambda: [opto.Steer("final.in", STEER, axes="d_model", pos=-1)],
    "pattern": lambda: [
        opto.attention.Pattern(opto.attention.PreviousToken(), heads="0:0")
    ],
    "frozen": lambda: [opto.Freeze("**.pattern"), opto.Zero("tok_embed", pos=2)],
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", EDITS)
def test_terms_sum_to_the_logits_under_edits(name):
    model, inputs, edits = build("mlp"), batch(4), EDITS[name]()
    values, names = logit_terms(model, *inputs, edits=edits)
    expected = logits_of(model, *inputs, edits=edits)
    assert np.abs(expected - logits_of(model, *inputs)).max() > 1e-3
    np.testing.assert_allclose(values.sum(0), expected, atol=1e-6)
    rest = np.abs(values[names.index("rest")]).max()
    assert (rest > 1e-3) == (name in ("stream", "end"))
    if name == "head":
        np.testing.assert_array_equal(values[names.index("0:1")], 0)


def test_a_norm_of_another_kind_and_tied_weights():
    rng = np.random.default_rng(2)
    stream, term = rng.normal(size=(2, 6, 8)).astype(np.float32)
    norm = eqx.nn.RMSNorm(8)
    norm = eqx.tree_at(lambda n: n.weight, norm, jnp.arange(8.0))
    norm = eqx.tree_at(lambda n: n.bias, norm, jnp.full(8, 0.3))
    tied = eqx.nn.Embedding(weight=rng.normal(size=(5, 8)).astype(np.float32))
    whole = direct_logits(jnp.asarray(stream), jnp.asarray(stream), norm, tied)
    expected = jax.vmap(norm)(jnp.asarray(stream)) @ tied.weight.T
    np.testing.assert_allclose(whole + logit_bias(norm, tied), expected, atol=1e-4)
    several = direct_logits(
        jnp.stack([term, stream - term]), jnp.asarray(stream), norm, tied
    )
    assert several.shape == (2, 6, 5)
    np.testing.assert_allclose(several.sum(0), whole, atol=1e-4)
    bare = eqx.nn.LayerNorm(8, use_weight=False, use_bias=False)
    whole = direct_logits(jnp.asarray(stream), jnp.asarray(stream), bare, tied)
    expected = jax.vmap(bare)(jnp.asarray(stream)) @ tied.weight.T
    np.testing.assert_allclose(whole, expected, atol=1e-4)
    np.testing.assert_array_equal(logit_bias(bare, tied), 0)


def _lens(**options):
    return lambda model, inputs: logit_lens(model, *inputs, **options)


def _terms(**options):
    return lambda model, inputs: logit_terms(model, *inputs, **options)


ERRORS = {
    "did you mean 'blocks.*.resid_post'?": _lens(sites="**.resid_pots"),
    "at least one site, got none": _lens(sites=[]),
    "must have the shape of final.in": _lens(sites="**.attn.z"),
    "into must be one site, got 2": _lens(into="**.resid_pre"),
    "read='embed' is computed before": _lens(into="logits", read="embed"),
    "no site matches '**.reslt'": _terms(heads="**.reslt"),
    "no site matches '**.mlp.outt'": _terms(mlps="**.mlp.outt"),
    "logit_terms takes what is added to final.in": _terms(heads="**.attn.z"),
    "d_model=12], with an axis 'head' or without; got blocks.0.mlp.post": _terms(
        mlps="**.mlp.post"
    ),
    "what the grafted model writes": lambda model, inputs: logit_terms(
        model, *inputs, edits=[opto.Graft(model, until=0)]
    ),
    "norm must be an eqx.Module, got None": lambda model, inputs: logit_terms(
        eqx.tree_at(lambda m: m.final_norm, model, None), *inputs
    ),
    "RMSNorm or an Identity, got PReLU": lambda model, inputs: logit_terms(
        model, *inputs, norm=eqx.nn.PReLU()
    ),
    "[label, d_model], got Identity": _terms(unembed=eqx.nn.Identity()),
    "unembed must read d_model=12, got": lambda model, inputs: logit_terms(
        model, *inputs, unembed=eqx.nn.Linear(5, 2, key=jax.random.key(0))
    ),
}


@pytest.mark.parametrize("message", ERRORS)
def test_bad_arguments_are_named(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ERRORS[message](build("mlp"), batch(2))
