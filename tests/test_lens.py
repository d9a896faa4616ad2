"""The logit lens and direct logit attribution, against NumPy by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import opto
from icl.models import (
    exemplar_label_interface,
    Learned,
    NoPositions,
    Sinusoidal,
    TransformerConfig,
)
from opto.lens import direct_logits, logit_bias, logit_lens, logit_terms


LABELS, DIM, D_MODEL = 4, 3, 12

CONFIGS = {
    "attention": TransformerConfig(2, D_MODEL, 3),
    "mlp": TransformerConfig(2, D_MODEL, 3, mlp_ratio=2.0, qkv_bias=True),
    "no_norm": TransformerConfig(2, D_MODEL, 3, mlp_ratio=1.0, layer_norm=False),
    "heads": TransformerConfig(3, D_MODEL, (2, 1, 6), positions=Learned(9)),
    "sinusoidal": TransformerConfig(1, D_MODEL, 2, positions=Sinusoidal()),
    "no_positions": TransformerConfig(
        1, D_MODEL, 2, mlp_ratio=1.0, positions=NoPositions()
    ),
}


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def build(name):
    """A model whose norms and biases differ from their initial values."""
    model = CONFIGS[name].build(
        exemplar_label_interface(LABELS, dim=DIM), key=jax.random.key(0)
    )
    leaves, structure = jax.tree.flatten(eqx.filter(model, eqx.is_inexact_array))
    keys = jax.random.split(jax.random.key(1), len(leaves))
    moved = [
        x + 0.3 * jax.random.normal(k, x.shape, x.dtype)
        for x, k in zip(leaves, keys, strict=True)
    ]
    rest = eqx.filter(model, eqx.is_inexact_array, inverse=True)
    return eqx.combine(jax.tree.unflatten(structure, moved), rest)


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


def terms_of(model, *inputs, **options):
    layers = {"norm": model.final_norm, "unembed": model.unembed}
    return logit_terms(model, *inputs, **layers, **options)


def logits_of(model, *inputs, edits=()):
    return opto.run(model, *inputs, record="logits", edits=edits)[1]["logits"]


# The lens.


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
@pytest.mark.parametrize("name", ["mlp", "no_norm", "heads"])
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
    model, inputs = build("attention"), batch(4)
    other = CONFIGS["attention"].build(
        exemplar_label_interface(LABELS, dim=DIM), key=jax.random.key(7)
    )
    edits = [opto.Graft(other, from_=1)]
    values, _ = logit_lens(model, *inputs, sites="**.resid_post", edits=edits)
    expected = logits_of(model, *inputs, edits=edits)
    np.testing.assert_allclose(values[-1], expected, atol=1e-5)


class Counted(eqx.Module):
    """Counts how often the model is traced."""

    model: eqx.Module
    calls: list = eqx.field(static=True)
    input_axes: tuple = eqx.field(static=True)

    def __call__(self, *inputs, tap=opto.identity):
        self.calls.append(1)
        return self.model(*inputs, tap=tap)


class Calls(list):
    __hash__ = object.__hash__
    __eq__ = object.__eq__


def test_the_lens_compiles_once_for_all_values_of_edits():
    model, calls = build("attention"), Calls()
    counted = Counted(model, calls, model.input_axes)
    for head in (0, 1, 2):
        edits = [opto.Zero("blocks.0.attn.z", head=head)]
        logit_lens(counted, *batch(4), edits=edits)
        if head == 0:
            traced = len(calls)
    assert len(calls) == traced


# Direct logit attribution.


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", CONFIGS)
def test_terms_sum_to_the_logits(name):
    model, inputs = build(name), batch(4)
    values, names = terms_of(model, *inputs)
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


@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_terms_in_float32_and_for_any_batch(shape):
    model, inputs = build("mlp"), batch(*shape)
    values, names = terms_of(model, *inputs)
    assert values.shape == (len(names), *shape, 5, LABELS)
    logits = logits_of(model, *inputs)
    np.testing.assert_allclose(values.sum(0), logits, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["mlp", "no_norm"])
def test_a_heads_term_is_its_direct_path(name):
    """In NumPy, from the formula W_U diag(g) (I - 1/d) W_O z / sigma."""
    model, inputs = build(name), batch()
    values, names = terms_of(model, *inputs)
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
def test_positions_are_in_the_term_of_the_embedding():
    model, inputs = build("heads"), batch()
    _, record = opto.run(model, *inputs, record=["tok_embed", "final.in"])
    embedded = record["tok_embed"] + model.embedding.positions.table[:5]
    values, _ = terms_of(model, *inputs)
    layers = model.final_norm, model.unembed
    expected = direct_logits(embedded, record["final.in"], *layers)
    np.testing.assert_allclose(values[0], expected, atol=1e-12)


STEER = np.linspace(-1, 1, D_MODEL)

EDITS = {
    "head": lambda: [opto.Zero("blocks.0.attn.z", head=1)],
    "stream": lambda: [opto.Steer("blocks.0.resid_post", STEER, axes="d_model")],
    "end": lambda: [opto.Steer("final.in", STEER, axes="d_model", pos=-1)],
    "output": lambda: [opto.Zero("blocks.0.attn.out")],
    "pattern": lambda: [opto.Pattern(opto.PreviousToken(), heads="0:0")],
    "frozen": lambda: [opto.Freeze("**.pattern"), opto.Zero("tok_embed", pos=2)],
    "result": lambda: [opto.Scale("blocks.1.attn.result", 2.0, head=0)],
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", EDITS)
def test_terms_sum_to_the_logits_under_edits(name):
    model, inputs, edits = build("mlp"), batch(4), EDITS[name]()
    values, names = terms_of(model, *inputs, edits=edits)
    expected = logits_of(model, *inputs, edits=edits)
    assert np.abs(expected - logits_of(model, *inputs)).max() > 1e-3
    np.testing.assert_allclose(values.sum(0), expected, atol=1e-6)
    rest = np.abs(values[names.index("rest")]).max()
    assert (rest > 1e-3) == (name in ("stream", "end", "output"))
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
    def call(model, inputs):
        layers = {"norm": model.final_norm, "unembed": model.unembed}
        return logit_terms(model, *inputs, **{**layers, **options})

    return call


def test_the_model_s_own_norm_and_unembedding_are_taken():
    model, inputs = build("mlp"), batch()
    found, _ = logit_terms(model, *inputs)
    expected, _ = terms_of(model, *inputs)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(found.sum(0), logits_of(model, *inputs), atol=1e-5)
    bare = eqx.tree_at(lambda m: m.final_norm, model, None)
    with pytest.raises(ValueError, match="norm must be an eqx.Module, got None; Exemp"):
        logit_terms(bare, *inputs)


ERRORS = {
    "no site": (_lens(sites="**.resid_pots"), "resid_post"),
    "no sites": (_lens(sites=[]), "at least one site, got none"),
    "no stream": (_lens(sites="**.attn.z"), "must have the shape of final.in"),
    "several": (_lens(into="**.resid_pre"), "into must be one site, got 2"),
    "order": (_lens(into="logits", read="embed"), "read='embed' is computed before"),
    "head": (
        lambda m, i: _lens(edits=[opto.Zero("**.z", head=9)])(m, i),
        "head 9 is out of range",
    ),
    "no heads": (_terms(heads="**.reslt"), "no site matches '**.reslt'"),
    "no mlps": (_terms(mlps="**.mlp.outt"), "no site matches '**.mlp.outt'"),
    "graft": (
        lambda m, i: _terms(edits=[opto.Graft(m, until=0)])(m, i),
        "what the grafted model writes",
    ),
    "norm": (
        lambda m, i: _terms(norm=eqx.nn.PReLU())(m, i),
        "RMSNorm or Identity of Equinox, got PReLU",
    ),
    "width": (
        lambda m, i: _terms(norm=eqx.nn.LayerNorm(5))(m, i),
        "a norm of d_model=12, got one of",
    ),
    "unembed": (_terms(unembed=eqx.nn.Identity()), "[label, d_model], got Identity"),
    "read": (
        lambda m, i: _terms(unembed=eqx.nn.Linear(5, 2, key=jax.random.key(0)))(m, i),
        "unembed must read d_model=12, got a weight of shape (2, 5)",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_bad_arguments_are_named(name):
    call, message = ERRORS[name]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        call(build("attention"), batch(2))
    assert message in str(caught.value)
