"""Learnt edits, beside closed forms."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tapped

import opto


END = "layers.1.resid"  # The model's output.


@pytest.fixture
def model():
    return tapped.Ragged(jax.random.key(0))


@pytest.fixture
def xs():
    return jax.random.normal(jax.random.key(1), (8, 5, 6))


def squared(out, xs, wanted):
    return jnp.mean((out - wanted) ** 2)


def wanted_of(xs):
    return jax.random.normal(jax.random.key(2), xs.shape)


def test_a_steering_vector_ends_at_the_mean_residual(model, xs):
    wanted, before = wanted_of(xs), model
    edits = [opto.Steer(END, jnp.zeros(6), axes="d_model")]
    fitted = opto.fit(
        edits,
        squared,
        model,
        [xs],
        targets=[wanted],
        steps=400,
        optimizer=optax.adam(0.1),
    )
    out, _ = opto.run(model, xs)
    best = np.mean(np.float64(wanted - out), (0, 1))
    np.testing.assert_allclose(fitted.edits[0].direction, best, atol=1e-3)
    lowest = np.mean((np.float64(wanted - out) - best) ** 2)
    assert fitted.losses.shape == (400,)
    np.testing.assert_allclose(fitted.losses[-1], lowest, rtol=1e-5)
    np.testing.assert_allclose(fitted.losses[0], squared(out, xs, wanted), rtol=1e-5)
    assert eqx.tree_equal(model, before)
    assert opto.parse(fitted.edits[0].text()).site == END


def test_a_step_is_that_of_a_loop(model, xs):
    """Two steps of plain descent in a strength, with recorded values taken along."""
    _, source = opto.run(model, xs[::-1], record="layers.0.z")
    edits = [opto.Patch("layers.0.z", source, strength=0.5)]
    wanted = wanted_of(xs)
    fitted = opto.fit(
        edits,
        squared,
        model,
        [xs],
        targets=[wanted],
        steps=2,
        optimizer=optax.sgd(0.1),
        train=lambda edits: edits[0].strength,
    )

    def loss(strength):
        edit = opto.Patch("layers.0.z", source, strength=strength)
        return squared(opto.run(model, xs, edits=[edit])[0], xs, wanted)

    strength = jnp.array(0.5)
    for _ in range(2):
        strength = strength - 0.1 * jax.grad(loss)(strength)
    np.testing.assert_allclose(fitted.edits[0].strength, strength, rtol=1e-5)


def test_batches_of_examples(model, xs):
    """Each step sees its examples with their own targets and recorded values."""
    _, source = opto.run(model, xs[::-1], record="layers.0.z")
    patched, _ = opto.run(model, xs, edits=[opto.Patch("layers.0.z", source)])
    edits = [
        opto.Patch("layers.0.z", source),
        opto.Steer(END, jnp.full(6, 1.0), axes="d_model"),
    ]
    fitted = opto.fit(
        edits, squared, model, [xs], targets=[patched], batch_size=3, steps=300
    )
    np.testing.assert_allclose(fitted.edits[1].direction, 0, atol=1e-2)
    np.testing.assert_allclose(fitted.losses[0], 1, rtol=1e-4)


def fitting(loss=lambda out, xs: out.sum(), site="layers.0.z", **options):
    """A function that fits a factor, with these arguments."""

    def call(model, xs):
        given = {"steps": 1, **options}
        return opto.fit([opto.Scale(site, 2.0)], loss, model, [xs], **given)

    return call


REFUSED = {
    "fit: no array to train in [Zero('layers.0.z')]": lambda model, xs: opto.fit(
        [opto.Zero("layers.0.z")], lambda out, xs: out.sum(), model, [xs], steps=1
    ),
    "no site 'layers.0.zz'": fitting(site="layers.0.zz"),
    "batch_size is from 1 to the number of examples": fitting(batch_size=9),
    "steps is a whole number, 1 or more, got 0": fitting(steps=0),
    "the metric must be one number, got (8,)": fitting(lambda out, xs: out.sum((1, 2))),
    "the loss is not finite at step 0": fitting(lambda out, xs: out.sum() / 0),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message, model, xs):
    with pytest.raises(ValueError, match=re.escape(message)):
        REFUSED[message](model, xs)
