"""Positions that differ between examples, by index, by name and under padding."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tapped

import opto


Q, Z = "layers.1.q", "layers.*.z"
AT = [1, 3, -1, 0]


@pytest.fixture
def model():
    return tapped.Ragged(jax.random.key(0))


@pytest.fixture
def xs():
    return jax.random.normal(jax.random.key(1), (4, 4, 6))


def loop(model, xs, edits):
    """Each example by itself, under its own edits."""
    outs = [opto.run(model, x, edits=[e])[0] for x, e in zip(xs, edits, strict=True)]
    return np.stack(outs)


def same(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_an_index_of_each_example(model, xs):
    edit = opto.Zero(Z, pos=opto.PerExample(AT), head=1)
    ours, _ = opto.run(model, xs, edits=[edit])
    same(ours, loop(model, xs, [opto.Zero(Z, pos=i, head=1) for i in AT]))
    assert opto.parse(edit.text()).text() == edit.text()
    assert "seq=PerExample([1, 3, -1, 0])" in edit.text()
    # Other indices run the same program; two batch axes, two choices.
    two = np.array([[[0, 1], [2, 3]], [[0, 2], [1, 1]]])
    ours, _ = opto.run(
        model,
        xs.reshape(2, 2, 4, 6),
        edits=[opto.Scale(Q, 2.0, pos=opto.PerExample(two))],
    )
    edits = [opto.Scale(Q, 2.0, pos=sorted(set(i))) for i in two.reshape(4, 2).tolist()]
    same(ours.reshape(4, 4, 6), loop(model, xs, edits))


def test_under_a_sweep(model, xs):
    metric = lambda out, xs: out.sum((1, 2))
    each = opto.Zero("layers.0.z", pos=opto.PerExample(AT)).each("head")
    found = opto.sweep(metric, model, xs, edits=each)
    for head in range(2):
        edits = [opto.Zero("layers.0.z", pos=i, head=head) for i in AT]
        same(found[head], loop(model, xs, edits).sum((1, 2)))


def test_a_patch_from_other_positions_and_lengths(model, xs):
    longer = jax.random.normal(jax.random.key(2), (4, 7, 6))
    _, source = opto.run(model, longer, record=Q)
    edit = opto.Patch(Q, source, pos=[0, 2], source_pos=[6, 1])
    ours, record = opto.run(model, xs, record=Q, edits=[edit])
    _, before = opto.run(model, xs, record=Q)
    expected = np.array(before[Q])
    expected[:, :, 0], expected[:, :, 2] = source[Q][:, :, 6], source[Q][:, :, 1]
    same(record[Q], expected)
    back = opto.parse(opto.Patch(Q, {Q: source[Q][0]}, pos=0, source_pos=-7).text())
    same(back.values.arrays[Q], source[Q][0])
    edit = opto.Patch(
        Q, source, pos=opto.PerExample(AT), source_pos=opto.PerExample([6, 5, 4, 0])
    )
    _, record = opto.run(model, xs, record=Q, edits=[edit])
    expected = np.array(before[Q])
    for i, (to, at) in enumerate(zip(AT, (6, 5, 4, 0), strict=True)):
        expected[i, :, to] = source[Q][i, :, at]
    same(record[Q], expected)
    # Between heads, too.
    edit = opto.Patch(Q, before, head=2, source_head=0)
    _, record = opto.run(model, xs, record=Q, edits=[edit])
    same(record[Q][:, 2], before[Q][:, 0])


def test_padding_does_not_count(model, xs):
    tokens = np.arange(4) < np.array([[4], [2], [4], [3]])
    _, record = opto.run(model, xs, record=Q)
    values = np.float64(record[Q])
    means = np.nanmean(np.where(tokens[:, None, :, None], values, np.nan), 0)
    padded = jnp.where(tokens[:, None, :, None], record[Q], jnp.nan)
    mean = opto.Mean(
        Q, opto.toolkit.Record({Q: record[Q]}, record._axes), tokens=tokens
    )
    same(mean.means[Q], means)
    assert np.isnan(padded).any()
    other = opto.Resample(Q, record, tokens=tokens).values.arrays[Q]
    for i in range(4):
        for j in range(4):
            givers = [k for k in range(4) if tokens[k, j] and k != i]
            here = [np.array_equal(other[i, :, j], values[k, :, j]) for k in givers]
            assert (
                any(here)
                if tokens[i, j]
                else np.array_equal(other[i, :, j], values[i, :, j])
            )


def test_tokens_by_name():
    model, labels = tapped.Tokens(), jnp.array([[1, 2, 3]])
    opto.attention.name_tokens("tokens.role", query=int(tapped.QUERY))
    for edit, by_index in (
        (opto.Zero("pattern", pos="query"), opto.Zero("pattern", pos=-1)),
        (
            opto.Clamp("pattern", 0.5, pos="query", kv_seq=0),
            opto.Clamp("pattern", 0.5, pos=-1, kv_seq=0),
        ),
        (
            opto.attention.Block(pos="query", distance=1),
            opto.attention.Block(pos=-1, distance=1),
        ),
    ):
        ours, theirs = (opto.run(model, labels, edits=[e])[0] for e in (edit, by_index))
        same(ours, theirs)
        assert opto.parse(edit.text()).text() == edit.text()


REFUSED = {
    "indices of shape (3,), but the inputs have batch shape (4,)": lambda m, x: (
        opto.run(m, x, edits=[opto.Zero(Q, pos=opto.PerExample([0, 1, 2]))])
    ),
    "PerExample has indices of shape (4,), but the input is one example": lambda m, x: (
        opto.run(m, x[0], edits=[opto.Zero(Q, pos=opto.PerExample(AT))])
    ),
    "seq 9 is out of range": lambda m, x: opto.run(
        m, x, edits=[opto.Zero(Q, pos=opto.PerExample([0, 9, 1, 1]))]
    ),
    "whole-number indices, one for each example; got [0.5]": lambda m, x: (
        opto.PerExample([0.5])
    ),
    "each('seq') cannot sweep that axis": lambda m, x: opto.Zero(
        Q, pos=opto.PerExample(AT)
    ).each("pos"),
    "source_seq= needs seq=": lambda m, x: opto.Patch(Q, {Q: 0.0}, source_pos=1),
    "source_seq=[4] is out of range of 4": lambda m, x: opto.run(
        m, x, edits=[opto.Patch(Q, opto.run(m, x, record=Q)[1], pos=0, source_pos=4)]
    ),
    "pos names tokens (all": lambda m, x: opto.Zero(Q, pos="labl"),
    "tokens= must be bool[4, 4] for 'layers.1.q', got bool[4]": lambda m, x: opto.Mean(
        Q, opto.run(m, x, record=Q)[1], tokens=np.ones(4, bool)
    ),
    "tokens= needs the Record of a run, got means": lambda m, x: opto.Mean(
        Q, {Q: 0.0}, tokens=np.ones((4, 4), bool)
    ),
    "only one example has a token at some position": lambda m, x: opto.Resample(
        Q, opto.run(m, x, record=Q)[1], tokens=np.arange(4) < [[4], [3], [3], [3]]
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message, model, xs):
    with pytest.raises(ValueError, match=re.escape(message)):
        REFUSED[message](model, xs)


def test_a_list_as_long_as_the_batch_says_what_it_means(model, xs):
    with pytest.warns(UserWarning, match=r"all of them in every example.*PerExample"):
        opto.run(model, xs, edits=[opto.Zero(Q, pos=[1, 3, 3, 0])])
    opto.run(model, xs, edits=[opto.Zero(Q, pos=[0, 1, 2, 3])])
