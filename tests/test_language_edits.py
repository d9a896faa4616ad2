"""Edits, records and circuits of language models: padding, norms, parallel blocks."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import opto
from icl.models import Window
from icl.models._layers import per_token
from icl.models.attention import (
    FavorAttention,
    LinearAttention,
    ProductAttention,
    RebasedAttention,
    RelaAttention,
    SoftmaxAttention,
)
from icl.models.decoder import DecoderConfig, LayerNormConfig, RMSNormConfig
from icl.models.gpt2 import GPT2Config
from icl.protocols import Input, Interface
from icl.roles import PADDING
from opto.attention import Pattern, Uniform


TOKENS = Interface((Input("ids", (8,), "int32", 20),), 20)
GPT2 = GPT2Config(num_layers=2, d_model=8, num_heads=2, max_length=12, init_std=0.4)
DECODER = DecoderConfig(
    num_layers=2, d_model=8, num_heads=2, init_std=0.4, norm=LayerNormConfig()
)
STREAM = "blocks.0.resid_post"


def built(config, **changes):
    build = eqx.filter_jit(dataclasses.replace(config, **changes).build)
    return build(TOKENS, key=jax.random.key(0))


def metric(logits, *inputs):
    return (logits[..., -1, 1] - logits[..., -1, 2]).mean()


def close(a, b, **given):
    np.testing.assert_allclose(a, b, **{"rtol": 1e-3, "atol": 1e-5, **given})


@pytest.fixture(scope="module")
def gpt2():
    return built(GPT2)


@pytest.fixture(scope="module")
def ids():
    return jax.random.randint(jax.random.key(5), (2, 6), 1, 20)


@pytest.fixture(scope="module")
def others():
    return jax.random.randint(jax.random.key(6), (2, 6), 1, 20)


@pytest.fixture(scope="module")
def padded(ids):
    """The second prompt without its first two tokens."""
    return ids.at[1, :2].set(PADDING)


# Padding


def in_half(model):
    half = lambda x: x.astype(jnp.float16) if eqx.is_inexact_array(x) else x
    return jax.tree.map(half, model)


def test_padding_in_16_bits(gpt2, ids, padded):
    found, _ = opto.run(in_half(gpt2), padded)
    alone, _ = opto.run(gpt2, ids[1, 2:])
    close(found[1, 2:], alone, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    "kind",
    [
        *(LinearAttention(), ProductAttention(), RelaAttention(), RebasedAttention()),
        *(FavorAttention(8), SoftmaxAttention()),
    ],
    ids=lambda kind: type(kind).__name__,
)
def test_padding_with_every_kind_of_attention(kind, ids, padded):
    model = built(GPT2, attention=kind)
    logits, _ = opto.run(model, padded, record="**.pattern")
    close(logits[1, 2:], opto.run(model, ids[1, 2:])[0])
    assert np.isfinite(logits).all()


@pytest.mark.parametrize(
    "text",
    [
        *("Block(distance=1)", "Pattern(Uniform())", "Pattern(PreviousToken())"),
        "Pattern(PreviousToken(0.7))",
    ],
)
def test_edited_attention_does_not_see_padding(text, gpt2, ids, padded):
    edits = [opto.parse(text)]
    logits, _ = opto.run(gpt2, padded, edits=edits)
    close(logits[1, 2:], opto.run(gpt2, ids[1, 2:], edits=edits)[0])


def test_a_pattern_is_among_the_keys_that_a_query_sees(ids):
    model = built(GPT2, mask=Window(2))
    _, record = opto.run(model, ids[0], record="**.pattern", edits=[Pattern(Uniform())])
    rows = record["blocks.1.attn.pattern"][0]
    two = (np.eye(6) + np.eye(6, k=-1)) / 2
    two[0, 0] = 1
    close(rows, two)


# Norms


def test_a_clamped_scale_reaches_heads_that_read_something_else(gpt2, ids):
    def queries(*edits):
        site = "blocks.1.attn.q"
        return opto.run(gpt2, ids, record=site, edits=edits)[1][site]

    bias = gpt2.blocks[1].attn.query(gpt2.blocks[1].attn_norm.bias)
    bias = bias.reshape(2, 1, -1)
    clamp = opto.Clamp("blocks.1.attn.scale", 1.0)
    double = opto.Scale("blocks.1.attn.q_in", 2.0)
    close(queries(clamp, double) - bias, 2 * (queries(clamp) - bias), atol=1e-4)
    close(queries(double), queries(), atol=1e-3)


@pytest.mark.parametrize(
    ("read", "normed"), [("mlp.in", "mlp.normed"), ("attn.q_in", "attn.q")]
)
def test_a_frozen_norm_after_the_receivers(read, normed, gpt2, ids, others):
    def patched(receivers, **given):
        return opto.patching.path_patch(
            metric,
            gpt2,
            [ids],
            [others],
            senders=opto.At("blocks.0.attn.z").each("head"),
            receivers=opto.At(f"blocks.1.{receivers}"),
            **given,
        )

    frozen = ("**.z", "**.mlp.out", "**.scale")
    close(patched(read, frozen=frozen), patched(normed, frozen=frozen))
    assert abs(patched(read, frozen=frozen) - patched(read)).max() > 1e-4


def test_a_layer_norm_in_16_bits_does_not_overflow():
    norm = in_half(eqx.nn.LayerNorm(16))
    x = jnp.zeros((2, 16)).at[:, 0].set(1000.0).astype(jnp.float16)
    close(per_token(norm, x), jax.vmap(norm)(x), rtol=1e-2)


def test_norms_of_queries_and_keys_leave_no_qk_circuit():
    model = built(DECODER, head_norm=RMSNormConfig())
    with pytest.raises(ValueError, match="head norms has no QK circuit"):
        opto.circuits.qk(model.blocks[0].attn.head_weights)


@pytest.mark.parametrize(
    "norm", [RMSNormConfig(offset=1.0), LayerNormConfig()], ids=str
)
def test_logit_terms_sum_to_the_logits(norm, ids):
    model = built(DECODER, norm=norm)
    terms, _ = opto.lens.logit_terms(model, ids)
    close(terms.sum(0), opto.run(model, ids)[0])
    capped = built(DECODER, norm=norm, soft_cap=2.0)
    with pytest.raises(ValueError, match="do not sum to the logits"):
        opto.lens.logit_terms(capped, ids)


# Parallel blocks


def test_heads_do_not_feed_the_mlp_beside_them(ids, others):
    model = built(DECODER, residual="parallel")
    found = opto.discovery.find_circuit(metric, model, [ids], [others], threshold=1e-9)
    into = {
        str(reader): {str(e.writer) for e in found.edges if str(e.reader) == reader}
        for reader in ("mlp 0", "mlp 1")
    }
    assert into == {"mlp 0": {"embed"}, "mlp 1": {"embed", "0:0", "0:1", "mlp 0"}}


# Rolling out


def answers(model, ids, *edits):
    return opto.roll_out(model, ids, steps=3, edits=edits).answers


def test_places_of_each_example_count_from_the_newest_token(gpt2, ids):
    last = opto.Zero(STREAM, pos=-1)
    each = opto.Zero(STREAM, pos=opto.PerExample([-1, -1]))
    close(answers(gpt2, ids, each), answers(gpt2, ids, last))
    keys = opto.Clamp("blocks.0.attn.pattern", 0.0, kv_seq=-1)
    assert abs(answers(gpt2, ids, keys) - answers(gpt2, ids)).max() > 1e-3


def test_a_source_has_places_of_its_own(gpt2, ids, others):
    _, record = opto.run(gpt2, others, record=STREAM)
    source = {STREAM: record[STREAM][0]}
    last, fifth = (
        opto.Patch(STREAM, source, pos=-1, source_pos=place) for place in (-1, 5)
    )
    close(answers(gpt2, ids, last), answers(gpt2, ids, fifth))


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_rolled_out(gpt2, ids):
    right = ids.at[1, -2:].set(PADDING)
    with pytest.raises(ValueError, match="padding on the left"):
        answers(gpt2, right)
    with pytest.raises(ValueError, match="ids must be whole numbers, got float32"):
        opto.run(gpt2, ids.astype(float))
    with pytest.raises(ValueError, match="under these edits sees what comes later"):
        answers(gpt2, ids, opto.Zero("**.scores", head=0))
