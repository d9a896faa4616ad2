"""Distributed alignment search on a network whose subspace is known."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import opto


class Planted(eqx.Module):
    """Writes a, b and noise along columns of a rotation; answers a + b."""

    rotation: jax.Array
    input_axes = ("part",)

    def __call__(self, parts, *, tap=opto.identity):
        early = tap("layers.0.resid", self.rotation @ parts, "d_model")
        late = tap("layers.1.resid", early.at[:].multiply(1.0), "d_model")
        return late @ (self.rotation[:, 0] + self.rotation[:, 1])


def planted(seed):
    draw = np.random.default_rng(seed).normal(size=(6, 6))
    return Planted(jnp.asarray(np.linalg.qr(draw)[0], jnp.float32))


def squared(out, expected):
    return jnp.mean((out - expected) ** 2)


def near(out, expected):
    return jnp.abs(out - expected) < 0.1


def search(model, **options):
    xs, others = jax.random.normal(jax.random.key(1), (2, 256, 6))
    expected = others[:, 0] + xs[:, 1]
    given = {
        "at": opto.At("layers.*.resid").each("layer"),
        "rank": 1,
        "loss": squared,
        "correct": near,
        "steps": 600,
        "optimizer": optax.adam(0.03),
        **options,
    }
    return opto.align.find_subspace(model, [xs], [others], expected, **given)


def test_the_planted_direction_is_found():
    model = planted(0)
    found = search(model, untrained=planted(1), batch_size=64)
    assert found.bases.shape == (2, 1, 6)
    cosines = found.bases[:, 0] @ model.rotation[:, 0]
    assert (np.abs(cosines) > 0.999).all()
    np.testing.assert_array_equal(found.accuracy, 1)
    assert (found.random < 0.5).all()
    np.testing.assert_array_equal(np.shape(found.untrained), (2,))
    assert found.losses.shape == (600,)
    # The found subspace, as an edit, exchanges a and nothing else.
    xs, others = jnp.eye(6)[:2] * 3, jnp.eye(6)[2:4]
    _, source = opto.run(model, others, record="layers.0.resid")
    edit = opto.Patch("layers.0.resid", source, basis=found.bases[0])
    out, _ = opto.run(model, xs, edits=[edit])
    np.testing.assert_allclose(out, [0, 3], atol=0.1)


def test_two_dimensions_hold_two_variables():
    found = search(planted(0), rank=2, steps=300)
    np.testing.assert_array_less(0.9, found.accuracy)


REFUSED = {
    "rank is a whole number, 1 or more, got 0": dict(rank=0),
    "rank must be at most": dict(rank=99),
    "held_out=1.0 leaves none of 256 to train on": dict(held_out=1.0),
    "batch_size=300, but 192 examples to train on": dict(batch_size=300),
    "no site matches 'layer.*.resid'": dict(at=opto.At("layer.*.resid").each("layer")),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        search(planted(0), **REFUSED[message])


def test_places_of_each_example_are_refused():
    at = opto.At("layers.*.resid", unit=opto.PerExample([0] * 256)).each("layer")
    with pytest.raises(ValueError, match="all must have the same places"):
        search(planted(0), at=at)
