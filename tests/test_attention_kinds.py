"""What is special about single kinds of attention; oracles that we did not write."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from kinds import ATTENTIONS, shaken

import opto
from icl import measures
from icl.config import from_json, to_json
from icl.models import (
    Attention,
    Causal,
    ContextOnly,
    exemplar_label_interface,
    FavorAttention,
    fold_layer_norms,
    LinearAttention,
    NoPositions,
    RebasedAttention,
    RelaAttention,
    SoftmaxAttention,
    TransformerConfig,
    UnstabilisedFavorAttention,
    Window,
)
from icl.models.attention import AbstractMixingAttention, QueriesSeeContext
from icl.models.attention._kernels import AsPattern, AsScan
from icl.models.attention.favor import orthogonal


# Oracles


@pytest.mark.parametrize("window", [None, 1, 5])
@pytest.mark.parametrize("kv_heads", [None, 1, 2])
def test_softmax_is_that_of_jax(window, kv_heads, getkey):
    attn = Attention(
        16,
        4,
        kind=SoftmaxAttention(),
        num_kv_heads=kv_heads,
        mask=Causal() if window is None else Window(window),
        qkv_bias=True,
        init_scale=2.0,
        key=getkey(),
    )
    positions = NoPositions().build(16, key=getkey())
    forward = lambda x, *, tap=opto.identity: attn(x, positions, tap=tap)
    x = jax.random.normal(getkey(), (12, 16))
    _, record = opto.run(forward, x, record=["q", "k", "v", "z"])
    q, k, v = (record[name].swapaxes(0, 1) for name in "qkv")
    assert k.shape[1] == (kv_heads or 4)
    local = None if window is None else (window - 1, 0)
    wanted = jax.nn.dot_product_attention(
        q, k, v, is_causal=True, local_window_size=local
    )
    np.testing.assert_allclose(record["z"].swapaxes(0, 1), wanted, atol=2e-6)


@pytest.mark.parametrize(
    ("config", "scale"),
    [(FavorAttention, 32**-0.5), (UnstabilisedFavorAttention, 1 / 32)],
)
def test_favor_becomes_softmax_with_more_features(config, scale, getkey):
    """The error falls with the root of the number of features."""
    q, k, v = 0.25 * jax.random.normal(getkey(), (3, 40, 2, 32))
    seen = np.tri(40, dtype=bool)
    wanted = np.zeros((40, 2, 32))
    for i, head in np.ndindex(40, 2):
        row = oracles.softmax_weights(q[i, head], k[: i + 1, head], scale)
        wanted[i, head] = row @ np.asarray(v[: i + 1, head])

    def error(count):
        kind = config(count).build(2, 32, scale=None, key=jax.random.key(3))
        found = jax.jit(lambda: kind(q, k, v, seen, tap=opto.identity))()
        return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)

    few, many = error(64), error(1024)
    assert few < 0.1
    assert many < min(0.03, few / 2.5)


def test_orthogonal_features_are_normal_vectors(getkey):
    found = np.asarray(orthogonal(6, 20, key=getkey()))
    assert found.shape == (6, 20)
    for block in (found[:, :6], found[:, 6:12], found[:, 18:]):
        products = block.T @ block
        np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-5)
    draw = jax.jit(jax.vmap(lambda key: orthogonal(3, 3, key=key)))
    many = np.concatenate(draw(jax.random.split(getkey(), 2000)), 1)
    # 6000 vectors: each moment is within four standard errors.
    np.testing.assert_allclose(many.mean(1), 0, atol=4 / 6000**0.5)
    np.testing.assert_allclose(
        many @ many.T / 6000, np.eye(3), atol=4 * (2 / 6000) ** 0.5
    )
    np.testing.assert_allclose((many**4).mean(), 3, atol=4 * (96 / 18000) ** 0.5)


# Hard cases


def build(name, d_head=4):
    config = ATTENTIONS[name].config
    kind = config.build(2, d_head, scale=None, key=jax.random.key(5))
    return shaken(kind, jax.random.key(6))


def in_forms(kind):
    """The kind as it chooses, and the forms of a kernel."""
    yield functools.partial(kind, tap=opto.identity)
    if hasattr(kind, "queries"):
        for form in (AsPattern(kind, opto.identity), AsScan(kind)):
            yield lambda q, k, v, seen, form=form: form(
                kind.queries(q), kind.keys(k), v, seen
            )


SCALES = np.array([0.0, 1.0, 100.0], np.float32)


@pytest.mark.parametrize("name", [n for n in ATTENTIONS if n != "sum_normalised"])
@pytest.mark.parametrize("length", [1, 5])
def test_gradients_are_finite(name, length):
    """With zeros, with large numbers, and with a sequence of one token."""
    kind = build(name)
    mix = kind.mix if isinstance(kind, AbstractMixingAttention) else lambda z: z
    seen = np.tri(length, dtype=bool)

    @jax.jit
    def slopes(qkv):
        def loss(qkv, scale):
            outs = [form(*(scale * qkv), seen) for form in in_forms(kind)]
            return sum(jnp.sum(jnp.sin(mix(z))) for z in outs)

        return jax.vmap(jax.value_and_grad(loss), (None, 0))(qkv, SCALES)

    value, slope = slopes(jax.random.normal(jax.random.key(2), (3, length, 2, 4)))
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("name", [n for n in ATTENTIONS if n != "sum_normalised"])
def test_a_future_key_changes_no_bit_of_what_came_before(name):
    """Public code for FAVOR+ leaks: it divides keys by the largest of all."""
    kind = build(name)
    q, k, v = jax.random.normal(jax.random.key(1), (3, 70, 2, 4))
    seen = np.tri(70, dtype=bool)
    every = jax.jit(lambda *qkv: [form(*qkv, seen) for form in in_forms(kind)])
    changed = every(q, k.at[-1].mul(30), v.at[-1].mul(30))
    for before, after in zip(every(q, k, v), changed, strict=True):
        np.testing.assert_array_equal(before[:-1], after[:-1])
        assert np.any(before[-1] != after[-1])


def test_favor_is_right_where_features_underflow(getkey):
    """Features of float32 are zero or infinite here; the oracle has float64."""
    kind = FavorAttention(16).build(2, 4, scale=None, key=getkey())
    q, k, v = 12 * jax.random.normal(getkey(), (3, 9, 2, 4))
    seen, directions = np.tri(9, dtype=bool), np.asarray(kind.directions.value)
    for found in jax.jit(lambda: [form(q, k, v, seen) for form in in_forms(kind)])():
        for i, head in np.ndindex(9, 2):
            row = oracles.favor_weights(
                *(np.asarray(x, np.float64) for x in (q[i, head], k[: i + 1, head])),
                directions=directions.astype(np.float64),
            )
            wanted = row @ np.asarray(v[: i + 1, head])
            np.testing.assert_allclose(found[i, head], wanted, rtol=1e-3, atol=1e-2)


def linear_outputs(*qkv):
    """Causal linear attention by the oracle, in float64."""
    q, k, v = (np.asarray(x, np.float64) for x in qkv)
    out = np.zeros_like(v)
    for i, head in np.ndindex(out.shape[:2]):
        row = oracles.linear_weights(q[i, head], k[: i + 1, head])
        out[i, head] = row @ v[: i + 1, head]
    return out


@pytest.mark.parametrize("offset", [-200.0, -60.0, 0.0])
def test_linear_attention_is_right_where_features_underflow(offset, getkey):
    """The oracle has float64, where these features are not zero."""
    kind = LinearAttention().build(2, 4, scale=None, key=getkey())
    q, k = offset + 5 * jax.random.normal(getkey(), (2, 9, 2, 4))
    v, seen = jax.random.normal(getkey(), (9, 2, 4)), np.tri(9, dtype=bool)
    wanted = linear_outputs(q, k, v)
    for found in jax.jit(lambda: [form(q, k, v, seen) for form in in_forms(kind)])():
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("offset", [0.0, -2.0, -60.0])
def test_gradients_of_linear_attention(offset, getkey):
    """Finite differences of the formula in float64, in random directions."""
    kind = LinearAttention().build(2, 4, scale=None, key=getkey())
    q, k = offset + jax.random.normal(getkey(), (2, 9, 2, 4))
    v, out = np.asarray(jax.random.normal(getkey(), (2, 9, 2, 4)))
    seen = np.tri(9, dtype=bool)
    formula = lambda q, k: np.sum(linear_outputs(q, k, v) * out)
    q64, k64 = (np.asarray(x, np.float64) for x in (q, k))
    step = 1e-6 * np.random.default_rng(0).normal(size=(2, 9, 2, 4))
    moved = formula(q64 + step[0], k64 + step[1])
    slope = (moved - formula(q64 - step[0], k64 - step[1])) / 2e-6
    for form in in_forms(kind):
        score = lambda q, k, f=form: jnp.sum(f(q, k, jnp.asarray(v), seen) * out)
        gradients = jax.jit(jax.grad(score, (0, 1)))(q, k)
        found = sum(np.sum(g * s) for g, s in zip(gradients, step, strict=True)) / 1e-6
        np.testing.assert_allclose(found, slope, rtol=1e-3)


def test_linear_attention_is_finite_where_products_underflow(getkey):
    kind = LinearAttention().build(1, 2, scale=None, key=getkey())
    q, k = jnp.array([[[0.0, -300.0]]] * 3), jnp.array([[[-300.0, 0.0]]] * 3)
    v, seen = jnp.arange(6.0).reshape(3, 1, 2), np.tri(3, dtype=bool)
    for form in in_forms(kind):
        total = lambda *qkv, form=form: form(*qkv, seen).sum()
        value, gradients = jax.jit(jax.value_and_grad(total, (0, 1, 2)))(q, k, v)
        # All keys are alike, so each output is the mean of the values so far.
        assert value == pytest.approx(1 + 3 + 5, rel=1e-5)
        assert all(np.isfinite(x).all() for x in gradients)


# What ReLA lacks


def rela():
    config = TransformerConfig(
        d_model=8, num_heads=2, attention=(SoftmaxAttention(), RelaAttention())
    )
    model = config.build(exemplar_label_interface(3, dim=4), key=jax.random.key(0))
    inputs = jnp.ones((3, 4)).at[0].set(-1), jnp.array([0, 1, 0])
    return shaken(model, jax.random.key(1)), inputs


WHY = "there is no 'blocks.1.attn.result', because what a head of RelaAttention writes"


def test_heads_that_are_mixed_have_no_results():
    model, inputs = rela()
    assert "blocks.0.attn.result" in opto.sites(model, *inputs)
    assert "blocks.1.attn.z_post" in opto.sites(model, *inputs)
    with pytest.raises(ValueError, match=WHY):
        opto.run(model, *inputs, edits=[opto.Zero("blocks.1.attn.result")])
    with pytest.raises(ValueError, match=f"logit_terms: .*{WHY}"):
        opto.lens.logit_terms(model, *inputs)
    score = lambda logits, *_: logits[-1, 0]
    find = functools.partial(
        opto.discovery.find_circuit, score, model, inputs, inputs, threshold=1.0
    )
    with pytest.raises(ValueError, match=f"writers=.*{WHY}"):
        find()
    # Whole layers are still added up.
    assert find(writers=["embed", "**.attn.out"]).edges == ()
    with pytest.raises(ValueError, match="ov: RelaAttention has no OV circuit"):
        measures.ov_copying(layer=1).fn(model, None, None, ())
    # Its queries and keys read what the layer before it writes.
    assert measures.composition("keys", 0, 1).fn(model, None, None, ()).shape == (2, 2)


def test_norms_fold_into_each_kind():
    """Queries, keys and values read the norm; what follows does not matter."""
    kinds = RelaAttention(), FavorAttention(8), RebasedAttention(), LinearAttention()
    config = TransformerConfig(d_model=8, num_heads=2, num_layers=4, attention=kinds)
    made = config.build(exemplar_label_interface(3, dim=4), key=jax.random.key(0))
    model, (_, inputs) = shaken(made, jax.random.key(1)), rela()
    folded = fold_layer_norms(model)
    np.testing.assert_allclose(folded(*inputs), model(*inputs), atol=1e-4)


# Configs


def test_kinds_by_layer_in_a_config():
    config = TransformerConfig(
        attention=(FavorAttention(5), RelaAttention()),
        mask=(Causal(), Window(3, (0, 2))),
        num_kv_heads=(None, 2),
    )
    stored = to_json(config)
    assert stored["attention"][0] == {"type": "FavorAttention", "num_features": 5}
    assert from_json(TransformerConfig, stored) == config
    alike = from_json(TransformerConfig, {"num_kv_heads": 2})
    assert alike.kv_heads == (2, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Window(0), "size must be a positive integer, got 0"),
        (lambda: Window(2, (1, -1)), "each of global_tokens must be .* 0, got -1"),
        (lambda: ContextOnly(0), "num_queries must be a positive integer, got 0"),
        (lambda: QueriesSeeContext(0), "num_queries must be a positive integer, got 0"),
        (lambda: FavorAttention(0), "num_features must be a positive integer, got 0"),
        (
            lambda: UnstabilisedFavorAttention(0),
            "num_features must be a positive integer, got 0",
        ),
        (
            lambda: FavorAttention().build(2, 4, scale=-1.0, key=jax.random.key(0)),
            "scale of FavorAttention must be positive and finite, got -1.0",
        ),
        (
            lambda: RebasedAttention().build(2, 4, scale=0.5, key=jax.random.key(0)),
            "scale: RebasedAttention has none, as its weights are divided by .* 0.5",
        ),
        (
            lambda: TransformerConfig(attention=(RelaAttention(),) * 3),
            "attention must be one for all layers, or one for each; got 3 for",
        ),
        (
            lambda: TransformerConfig(num_kv_heads=(3, 2)),
            "num_kv_heads must divide num_heads=8, got 3",
        ),
    ],
)
def test_settings_that_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()
