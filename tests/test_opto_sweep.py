"""Sweeps: many edits in one compiled call, each as if run alone."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tapped import Apply, Count, Counted, Negate, Waves

import opto


@functools.cache
def waves():
    """A model and its input, shared by all tests."""
    return Waves(jax.random.key(0)), jax.random.normal(jax.random.key(1), (4, 2))


def metric(out, x):
    return jnp.sum(jnp.sin(out) * jnp.cos(x))


def alone(edits, fn=metric):
    """The metric under these edits; compiles once for each structure."""
    return _alone(*waves(), edits, fn)


@eqx.filter_jit
def _alone(model, x, edits, fn):
    return fn(opto.visit(model, x, edits=edits)[0], x)


def swept(edits, fn=metric, **settings):
    return np.asarray(opto.sweep(fn, *waves(), edits=edits, **settings))


def close(ours, expected):
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)


NAN = float("nan")


@pytest.mark.parametrize("chunk", [None, 3, 100])
def test_each_head_equals_a_loop(chunk):
    """Five heads at six grid points: 3 does not divide five, and 100 exceeds it."""
    ours = swept(opto.Zero("layers.*.z").each("layer", "head"), chunk=chunk)
    zero = lambda layer, head: alone([opto.Zero("layers.*.z", heads=[(layer, head)])])
    expected = [
        [zero(0, 0), zero(0, 1), NAN],
        [zero(1, 0), zero(1, 1), zero(1, 2)],
    ]
    close(ours, expected)
    assert np.unique(ours[~np.isnan(ours)]).size == 5


def test_axes_of_the_grid_come_in_the_order_named():
    zero = opto.Zero("layers.*.z")
    close(swept(zero.each("head", "layer")), swept(zero.each("layer", "head")).T)


def test_nan_exactly_where_a_head_does_not_exist():
    ours = swept(opto.Zero("layers.*.q").each("layer", "head", "pos"))
    assert ours.shape == (2, 3, 4)
    assert np.all(np.isnan(ours[0, 2]))
    assert np.isnan(ours).sum() == 4
    # Without `layer` the edit acts on all layers, so each must have the head.
    ours = swept(opto.Zero("layers.*.q").each("head"))
    np.testing.assert_array_equal(np.isnan(ours), [False, False, True])
    # With a chosen layer, its heads are swept.
    ours = swept(opto.Zero("layers.*.z", layer=[1]).each("layer", "head"))
    close(ours, [[alone([opto.Zero("layers.1.z", head=h)]) for h in range(3)]])


def test_each_takes_the_selected_indices():
    def one(head, pos):
        return alone([opto.Clamp("layers.1.z", 0.5, head=head, pos=pos)])

    clamp = opto.Clamp("layers.1.z", 0.5, head=[2, -3], pos=[0, 3])
    close(swept(clamp.each("head")), [one(h, [0, 3]) for h in (2, 0)])
    both = [[one(h, p) for p in (0, 3)] for h in (2, 0)]
    close(swept(clamp.each("head", "pos")), both)
    units = [alone([opto.Zero("layers.1.z", unit=u)]) for u in range(2)]
    close(swept(opto.Zero("layers.1.z").each("unit")), units)
    pairs = opto.Zero("layers.*.z", heads="0:1 1:2").each("pos")
    by_pos = lambda p: alone([opto.Zero("layers.*.z", heads="0:1 1:2", pos=p)])
    close(swept(pairs), [by_pos(p) for p in range(4)])


def test_each_over_an_axis_layer_of_the_site():
    model = lambda x, tap=opto.identity: tap("x", x, "layer hidden")
    total, x = lambda out, x: out.sum(), jnp.arange(6.0).reshape(2, 3)
    edits = opto.Zero("x").each("layer", "hidden")
    close(opto.sweep(total, model, x, edits=edits), x.sum() - x)


def test_stack():
    edits = [
        opto.Clamp("layers.0.q", value, head=head, strength=strength)
        for value, head, strength in ((0.5, 0, 1.0), (0.1, 1, 0.3), (1, -1, 0.9))
    ]
    expected = [alone([edit]) for edit in edits]
    for chunk in (None, 2):
        close(swept(opto.stack(edits), chunk=chunk), expected)
    close(swept(opto.stack(edits[:1])), expected[:1])


def test_two_sweeps_are_every_combination():
    """In the given order, with a fixed edit before, between and after them."""
    rows = [opto.Clamp("layers.0.z", v, unit=0) for v in (1.0, 2.0, 3.0)]
    columns = [opto.Clamp("layers.0.z", 0.5, head=h, strength=0.4) for h in range(2)]
    fixed = [
        opto.Clamp("layers.0.z", 4.0, strength=0.5),
        Negate("layers.0.z", head=0),
        opto.Zero("layers.1.q", pos=-1),
    ]
    swept_columns = opto.Clamp("layers.0.z", 0.5, strength=0.4).each("head")
    edits = [fixed[0], opto.stack(rows), fixed[1], swept_columns, fixed[2]]
    expected = [
        [alone([fixed[0], row, fixed[1], column, fixed[2]]) for column in columns]
        for row in rows
    ]
    for chunk in (None, 4):
        close(swept(edits, chunk=chunk), expected)
    turned = [fixed[0], swept_columns, fixed[1], opto.stack(rows), fixed[2]]
    # Order matters here, so one grid is not the other transposed.
    other = swept(turned)
    close(other[1, 2], alone([fixed[0], columns[1], fixed[1], rows[2], fixed[2]]))
    assert np.abs(other.T - expected).max() > 1e-3


def test_the_metric_may_have_axes():
    by_position = lambda out, x: jnp.sin(out).sum(1)
    ours = swept(opto.Zero("layers.*.z").each("layer", "head"), by_position)
    assert ours.shape == (2, 3, 4)
    assert np.all(np.isnan(ours[0, 2]))
    close(ours[1, 2], alone([opto.Zero("layers.1.z", head=2)], by_position))


def test_the_metric_keeps_its_dtype():
    best = lambda out, x: jnp.argmax(out)
    edits = opto.Zero("layers.1.z").each("head")
    assert opto.sweep(best, *waves(), edits=edits).dtype == jnp.int32
    # No whole number can stand for a missing head, so it is NaN.
    edits = opto.Zero("layers.*.z").each("head")
    assert np.isnan(opto.sweep(best, *waves(), edits=edits)[2])


def test_batches():
    model, x = waves()
    batch = jnp.stack([x, x[::-1], -x])
    accuracy = lambda out, x: jnp.mean(jnp.sin(out), axis=(1, 2))
    edits = opto.Zero("layers.1.z").each("head")
    ours = opto.sweep(accuracy, model, batch, edits=edits, chunk=2)
    assert ours.shape == (3, 3)
    for i, one in enumerate(batch):
        single = lambda out, x: jnp.mean(jnp.sin(out))
        close(ours[:, i], opto.sweep(single, model, one, edits=edits))


def test_one_compilation():
    model, x = waves()
    count = Count()
    counted = Counted(model, count)
    run = lambda edits, **k: opto.sweep(metric, counted, x, edits=edits, **k)
    z = "layers.*.z"
    run(opto.Zero(z).each("layer", "head"))
    # Traces: the table of sites, and in the program its sites and its values.
    traced = len(count)
    assert traced <= 3
    for edits in (
        opto.Zero(z).each("layer", "head"),
        [opto.Zero(z, strength=0.5).each("layer", "head")],
        opto.Zero(z, head=[1, 0, 0], layer=[1, 0]).each("layer", "head"),
    ):
        run(edits)
        assert len(count) == traced
    pair = lambda *values: opto.stack([opto.Clamp(z, v, head=0) for v in values])
    run([pair(1, 2), opto.Zero(z, head=1)], chunk=1)
    traced = len(count)
    run([pair(3, 4), opto.Zero(z, head=1, strength=0.1)], chunk=1)
    assert len(count) == traced


def test_a_users_own_edit():
    for make in (Negate, functools.partial(Apply, function=jnp.abs)):
        ours = swept(make("layers.1.z").each("head"))
        close(ours, [alone([make("layers.1.z", head=h)]) for h in range(3)])
        edits = [make("layers.1.z", head=h, strength=0.3) for h in (1, 2)]
        close(swept(opto.stack(edits), chunk=1), [alone([edit]) for edit in edits])
    assert repr(Negate("z").each("head")) == "Negate('z').each('head')"


def test_inside_jit_and_vmap():
    model, x = waves()

    def run(x):
        heads = opto.Zero("layers.1.z", head=[0, 2]).each("head")
        edits = [heads, opto.stack([opto.Zero("layers.0.q", head=1)])]
        return opto.sweep(metric, model, x, edits=edits)

    pair = lambda h: [opto.Zero("layers.0.q", head=1), opto.Zero("layers.1.z", head=h)]
    expected = [[alone(pair(0))], [alone(pair(2))]]
    close(jax.jit(run)(x), expected)
    close(jax.vmap(run)(jnp.stack([x, x])), [expected, expected])
    wrong = lambda: opto.stack([opto.Zero("layers.0.q", head=2)])
    with pytest.raises(ValueError, match="head 2 is out of range"):
        jax.jit(lambda x: opto.sweep(metric, model, x, edits=wrong()))(x)
