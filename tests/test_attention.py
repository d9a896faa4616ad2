"""Differences between kinds of attention: two forms, missing sites, fewer keys."""

import functools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kinds import ATTENTIONS, shaken, SignedAttention

import opto
from icl import measures, plots
from icl.edits import CopyFromPattern, Induction, PerfectPreviousToken
from icl.edits.heads import duplicate_token, induction_strength
from icl.models import (
    Causal,
    ContextOnly,
    Everything,
    exemplar_label_interface,
    FavorAttention,
    fold_layer_norms,
    LinearAttention,
    RebasedAttention,
    RelaAttention,
    TransformerConfig,
)
from icl.models.attention import ProductAttention, SoftmaxAttention
from icl.models.attention._kernels import AsPattern, AsScan


# Two forms of attention by kernels

KERNELS = {
    name: kind.config
    for name, kind in ATTENTIONS.items()
    if name in ("linear", "favor", "unstabilised_favor", "rebased", "elementwise")
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(
    ("mask", "start"),
    [(Causal(), 0), (Causal(), 20), (Everything(), 0), (ContextOnly(3), 20)],
)
def test_both_forms_of_a_kernel_are_one(name, mask, start, getkey):
    kind = shaken(KERNELS[name].build(3, 4, scale=None, key=getkey()), getkey())
    # More than a chunk of the running sum.
    seq = start + 150
    q, k, v = jax.random.normal(getkey(), (3, seq, 3, 4))
    seen = mask.seen(seq, start)
    k, v = k[: mask.keys(seq)], v[: mask.keys(seq)]
    assert AsScan.fits(seen)

    def loss(qkv, form):
        q, k, v = qkv
        out = form(kind.queries(q), kind.keys(k), v, seen)
        return jnp.sum(jnp.sin(out)), out

    of = lambda form: jax.jit(
        jax.grad(functools.partial(loss, form=form), has_aux=True)
    )
    slope, out = of(AsScan(kind))((q[start:], k, v))
    wanted, pattern_out = of(AsPattern(kind, opto.identity))((q[start:], k, v))
    np.testing.assert_allclose(out, pattern_out, atol=2e-6)
    for ours, theirs in zip(slope, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_the_running_sum_is_for_queries_that_see_the_first_keys():
    causal = np.tri(9, dtype=bool)
    assert AsScan.fits(causal)
    assert AsScan.fits(causal[4:])
    assert AsScan.fits(causal[-1:])
    assert not AsScan.fits(causal & ~np.tri(9, k=-3, dtype=bool))  # A window.
    assert not AsScan.fits(causal[::2])
    assert not AsScan.fits(causal.T)


def test_long_sequences_take_the_form_that_is_asked_for(getkey):
    """Edits and records get the weights; without them no array is quadratic."""
    model, inputs = small(LinearAttention(), pairs=120)
    logits, record = opto.run(model, *inputs, record="**.pattern")
    assert record["blocks.0.attn.pattern"].shape == (2, 241, 241)
    program = jax.jit(lambda *x: model(*x)).lower(*inputs).as_text()
    assert "241x241" not in program
    np.testing.assert_allclose(eqx.filter_jit(model)(*inputs), logits, atol=1e-5)
    clamp = opto.Clamp("**.pattern", jnp.eye(241), axes="seq kv_seq")
    assert np.ptp(np.asarray(opto.run(model, *inputs, edits=[clamp])[0] - logits)) > 0


# What a kind lacks


@functools.cache
def built(attention, mask, pairs):
    config = TransformerConfig(
        num_layers=2, d_model=8, num_heads=2, attention=attention, mask=mask
    )
    interface = exemplar_label_interface(3, dim=4)
    model = eqx.filter_jit(config.build)(interface, key=jax.random.key(0))
    examples = jax.random.normal(jax.random.key(1), (pairs + 1, 4))
    labels = jnp.arange(pairs + 1) % 3
    return model, (examples, labels.at[-1].set(0))


def small(attention=SignedAttention(), mask=None, pairs=2):  # noqa: B008
    return built(attention, mask, pairs)


LACKING = {
    "block": (
        LinearAttention(),
        lambda: opto.attention.Block(distance=1),
        "no site matches '**.scores': LinearAttention has no scores but "
        "'blocks.0.attn.kernel'",
    ),
    "temperature": (
        LinearAttention(),
        lambda: opto.Scale("blocks.1.attn.scores", 0.5),
        "no site 'blocks.1.attn.scores': LinearAttention has no scores but",
    ),
    "previous_token": (
        LinearAttention(),
        lambda: PerfectPreviousToken(),
        "no site 'blocks.1.attn.scores': LinearAttention has no scores but",
    ),
    "copy": (
        LinearAttention(),
        lambda: CopyFromPattern(heads="1:0"),
        "no site matches '**.scores': LinearAttention has no scores but",
    ),
    "copy_of_kernel": (
        LinearAttention(),
        lambda: CopyFromPattern(heads="1:0", site="**.kernel"),
        "is for rows that are 'logits'; at 'blocks.0.attn.kernel' LinearAttention has "
        "'kernel'",
    ),
    "pattern": (
        SignedAttention(),
        lambda: opto.attention.Pattern(opto.attention.PreviousToken()),
        "is for rows that are 'distribution'; at 'blocks.0.attn.pattern' "
        "SignedAttention has 'signed'",
    ),
    "block_of_pattern": (
        LinearAttention(),
        lambda: opto.attention.Block(distance=1, site="**.pattern"),
        "is for rows that are 'logits' or 'kernel'; at 'blocks.0.attn.pattern'",
    ),
    "temperature_of_features": (
        FavorAttention(),
        lambda: opto.Scale("blocks.1.attn.scores", 0.5),
        "no site 'blocks.1.attn.scores': FavorAttention has no scores but",
    ),
    "pattern_of_rela": (
        RelaAttention(),
        lambda: opto.attention.Pattern(opto.attention.PreviousToken()),
        "is for rows that are 'distribution'; at 'blocks.0.attn.pattern' "
        "RelaAttention has 'non-negative'",
    ),
    "kernel": (
        TransformerConfig().attention,
        lambda: opto.Zero("**.kernel"),
        "no site matches '**.kernel': SoftmaxAttention has no kernel but "
        "'blocks.0.attn.scores'",
    ),
}


@pytest.mark.parametrize("name", LACKING)
def test_edits_refuse_by_name_what_a_kind_has_not(name):
    attention, make, message = LACKING[name]
    model, inputs = small(attention)
    with pytest.raises(ValueError, match=re.escape(message)):
        opto.run(model, *inputs, edits=[make()])


SCALES = {
    "of_a_key": (LinearAttention(), lambda: opto.Scale("**.kernel", 2, kv_seq=0)),
    "of_each_key": (
        LinearAttention(),
        lambda: opto.Scale("**.kernel", [1, 2, 3, 4, 5], axes="kv_seq"),
    ),
    "of_more_than_rows": (LinearAttention(), lambda: opto.Scale("blocks.0.**", 0.5)),
    "to_nothing": (LinearAttention(), lambda: opto.Scale("**.kernel", 0)),
    "of_rows": (ProductAttention(), lambda: opto.Scale("**.kernel", 2)),
    "of_scores": (SoftmaxAttention(), lambda: opto.Scale("**.scores", 2)),
}


@pytest.mark.parametrize("name", SCALES)
def test_a_scale_that_is_not_divided_out_changes_the_pattern(name):
    attention, make = SCALES[name]
    model, inputs = small(attention)
    before, after = (
        opto.run(model, *inputs, record="blocks.0.attn.pattern", edits=edits)[1]
        for edits in ([], [make()])
    )
    assert not np.allclose(*(r["blocks.0.attn.pattern"] for r in (before, after)))


EMPTY_ROWS = {
    "softmax": (SoftmaxAttention(), "**.scores", np.nan),
    "linear": (LinearAttention(), "**.kernel", np.nan),
    "product": (ProductAttention(), "**.kernel", 0),
    "favor": (FavorAttention(), "**.kernel", np.nan),
    "rebased": (RebasedAttention(), "**.kernel", 0),
    "rela": (RelaAttention(), "**.kernel", 0),
}


@pytest.mark.parametrize("name", EMPTY_ROWS)
def test_a_row_that_is_blocked_whole_is_nan_where_it_would_be_shared_out(name):
    attention, site, wanted = EMPTY_ROWS[name]
    model, inputs = small(attention)
    edit = opto.attention.Block(
        distance=0, site=site
    )  # The first token sees only this.
    site = "blocks.0.attn.pattern"
    _, record = opto.run(model, *inputs, record=site, edits=[edit])
    pattern = np.asarray(record[site])
    np.testing.assert_array_equal(pattern[:, 0, 0], wanted)
    assert np.isfinite(pattern[:, 1:]).all()


SHARES = {
    "query_attention": measures.query_attention,
    "induction": measures.induction_strength,
    "previous": measures.previous_token_strength,
    "excess": measures.previous_token_excess,
    "entropy": measures.query_entropy,
}


@pytest.mark.parametrize("name", SHARES)
def test_measures_of_shares_refuse_rows_that_are_none(name):
    measure = SHARES[name](layer=1)
    for attention in (LinearAttention(), SignedAttention()):
        model, inputs = small(attention)
        _, record = opto.run(model, *inputs, record=measure.record)
        if attention == LinearAttention():  # Its rows are distributions.
            assert np.isfinite(measure.fn(record, None, None)).all()
            continue
        message = "'blocks.1.attn.pattern' of SignedAttention has 'signed' rows"
        with pytest.raises(ValueError, match=message):
            measure.fn(record, None, None)
    every = measures.attention_patterns()
    _, record = opto.run(model, *inputs, record=every.record)
    assert every.fn(record, None, None).shape == (2, 2, 5, 5)


def test_weights_that_are_no_shares_have_colours_of_their_own():
    names = [list("AxByA")]
    signed = np.linspace(-3, 2, 25).reshape(1, 1, 5, 5)
    for values, limits in ((signed, (-3, 3)), (abs(signed), (0, 3))):
        figure = plots.attention_patterns(values, names, ["head 0"])
        assert figure.axes[0].images[0].get_clim() == limits


@pytest.mark.usefixtures("unchecked")
def test_norms_fold_only_into_models_that_are_known():
    with pytest.raises(ValueError, match="fold norms into .*, got Linear"):
        fold_layer_norms(eqx.nn.Linear(2, 2, key=jax.random.key(0)))


def test_logit_terms_sum_up_for_any_kind():
    for attention in (LinearAttention(), SignedAttention()):
        model, inputs = small(attention)
        terms, _ = opto.lens.logit_terms(
            model, *inputs, norm=model.final_norm, unembed=model.unembed
        )
        _, record = opto.run(model, *inputs, record="logits")
        np.testing.assert_allclose(terms.sum(0), record["logits"], atol=1e-5)


# Fewer keys than rows


def context_only():
    return small(TransformerConfig().attention, ContextOnly(), pairs=3)


def test_edits_where_keys_are_context_tokens():
    model, inputs = context_only()
    _, base = opto.run(model, *inputs, record="**.pattern")
    pattern = np.asarray(base["blocks.0.attn.pattern"])
    assert pattern.shape == (2, 7, 6)
    labels = np.array([1, 3, 5])
    edits = [
        opto.attention.Block(queries="query", keys="exemplar", heads="0:0"),
        opto.attention.Block(distance=1, queries="label query", heads="0:1"),
        opto.attention.Pattern(
            opto.attention.PreviousToken(queries="label query"), heads="1:0"
        ),
        opto.attention.Pattern(Induction(), heads="1:1"),
    ]
    _, record = opto.run(model, *inputs, record="**.pattern", edits=edits)
    first, second = (np.asarray(record[f"blocks.{i}.attn.pattern"]) for i in (0, 1))
    kept = np.where(np.arange(6) % 2, pattern[0, -1], 0)
    np.testing.assert_allclose(first[0, -1], kept / kept.sum(), rtol=1e-5)
    before = np.eye(7, 6, k=-1, dtype=bool) & (np.arange(7) % 2 > 0)[:, None]
    before[6, 5] = True
    kept = np.where(before, 0, pattern[1])
    np.testing.assert_allclose(first[1], kept / kept.sum(-1, keepdims=True), rtol=1e-5)
    for row in (*labels, 6):
        assert second[0, row].argmax() == row - 1
        assert second[0, row].max() == 1
    # The query's label is 0, the label of the first pair.
    np.testing.assert_array_equal(second[1, -1], np.eye(6)[1])
    copied, _ = opto.run(model, *inputs, edits=[CopyFromPattern(heads="1:0")])
    assert np.isfinite(copied).all()
    message = "PreviousToken() attends to tokens that are not keys"
    with pytest.raises(ValueError, match=re.escape(message)):
        opto.run(
            model,
            *inputs,
            edits=[opto.attention.Pattern(opto.attention.PreviousToken(0.5))],
        )


def test_measures_where_keys_are_context_tokens():
    model, inputs = context_only()
    _, record = opto.run(model, *inputs, record="**")
    pattern = np.asarray(record["blocks.1.attn.pattern"])
    row = pattern[:, -1]
    wanted = {
        "induction": row[:, 1] - row[:, 3] - row[:, 5],
        "previous": (pattern[:, 1, 0] + pattern[:, 3, 2] + pattern[:, 5, 4]) / 3,
        "entropy": -(row * np.log(row)).sum(-1),
        "query_attention": row[:, 1],
    }
    for name, value in wanted.items():
        found = SHARES[name](layer=1).fn(record, None, None)
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-6)
    labels = record["tokens.label"]
    role, pair = record["tokens.role"], record["tokens.pair"]
    strength = induction_strength(jnp.asarray(pattern), role, pair, labels)
    np.testing.assert_allclose(strength, wanted["induction"], rtol=1e-4, atol=1e-6)
    same = duplicate_token(jnp.asarray(pattern), role, pair, inputs[0])
    np.testing.assert_array_equal(same, 0)
    alike = jnp.full((1, 7, 6), 1 / 6)
    np.testing.assert_allclose(opto.heads.previous_token_excess(alike), 0, atol=1e-6)
    # Every token before the query is a key. With fewer keys, some tokens have no
    # previous one among them.
    few = jnp.full((1, 7, 4), 1 / 4)
    np.testing.assert_allclose(opto.heads.previous_token(few), 4 / 6 / 4, rtol=1e-6)


def test_plots_where_keys_are_context_tokens():
    pattern = np.random.default_rng(0).dirichlet(np.ones(6), (2, 7))
    names = [f"token {i}" for i in range(7)]
    for figure in (
        plots.attention_patterns(pattern, [names], ["a", "b"]),
        plots.token_maps(pattern[None], names),
    ):
        assert figure.axes[0].images[0].get_array().shape == (7, 6)
        assert len(figure.axes[0].get_xticks()) == 6
        assert len(figure.axes[0].get_yticks()) == 7
    plots.token_pairs(np.arange(2), np.stack([pattern[None]] * 2), names)
