"""Edits of subspaces, beside NumPy."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tapped

import opto


Q, RESID, END = "layers.1.q", "layers.*.resid", "layers.1.resid"


@pytest.fixture
def model():
    return tapped.Ragged(jax.random.key(0))


@pytest.fixture
def xs():
    return jax.random.normal(jax.random.key(1), (4, 5, 6))


def drawn(*shape):
    return np.random.default_rng(0).normal(size=shape)


def projector(vectors):
    """On the span of some vectors, from the pseudo-inverse."""
    return np.linalg.pinv(vectors) @ vectors


def values(model, xs, site, edits=()):
    return np.float64(opto.run(model, xs, record=site, edits=edits)[1][site])


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_a_subspace_is_removed_or_set(rank, model, xs):
    basis, site = drawn(rank, 6), "layers.0.resid"
    before = values(model, xs, site)
    removed = values(model, xs, site, [opto.Project(RESID, basis, axes="d_model")])
    expected = before - before @ projector(basis)
    np.testing.assert_allclose(removed, expected, atol=1e-5)
    # Along Gram-Schmidt's basis.
    to, ortho = drawn(7)[:rank], []
    for vector in basis:
        rest = vector - sum((vector @ q) * q for q in ortho)
        ortho.append(rest / np.linalg.norm(rest))
    edit = opto.Project(site, basis, to=to, pos=[0, 2])
    after = values(model, xs, site, [edit])
    expected[:, [0, 2]] += to @ np.array(ortho)
    expected[:, [1, 3, 4]] = before[:, [1, 3, 4]]
    np.testing.assert_allclose(after, expected, atol=1e-5)
    assert opto.parse(edit.text()).text() == edit.text()


def test_a_basis_for_each_layer_and_head(model, xs):
    basis = drawn(2, 2, 1, 2)
    edit = opto.Project("layers.*.q", basis, axes="layer head d_head", heads="0:1 1:0")
    three = opto.Project("layers.1.q", drawn(3, 1, 2), axes="head d_head")
    with pytest.raises(ValueError, match="does not fit layers.1.q"):
        opto.run(model, xs, edits=[edit])
    before = values(model, xs, Q)
    after = values(model, xs, Q, [three])
    for head in range(3):
        kept = np.eye(2) - projector(drawn(3, 1, 2)[head])
        np.testing.assert_allclose(after[:, head], before[:, head] @ kept, atol=1e-5)
    # Only layer 0 has two heads.
    first = opto.Project("layers.0.q", basis, axes="layer head d_head", head=1)
    alone = opto.Project("layers.0.q", basis[0, 1], head=1)
    same = values(model, xs, END, [first]), values(model, xs, END, [alone])
    np.testing.assert_allclose(*same, atol=1e-5)
    metric = lambda out, xs: out.sum((1, 2))
    swept = opto.sweep(metric, model, xs, edits=three.each("head"))
    for head in range(3):
        alone = opto.Project(Q, drawn(3, 1, 2)[head], head=head)
        out, _ = opto.run(model, xs, edits=[alone])
        np.testing.assert_allclose(swept[head], metric(out, xs), rtol=1e-5, atol=1e-5)


def test_only_the_subspace_is_exchanged(model, xs):
    basis, site = drawn(2, 6), "layers.0.resid"
    _, source = opto.run(model, xs[::-1], record=site)
    edit = opto.Patch(site, source, basis=basis, axes="d_model")
    before, other = values(model, xs, site), np.float64(source[site])
    expected = before + (other - before) @ projector(basis)
    np.testing.assert_allclose(values(model, xs, site, [edit]), expected, atol=1e-5)
    whole = opto.Patch(site, source, basis=np.eye(6))
    np.testing.assert_allclose(values(model, xs, site, [whole]), other, atol=1e-5)
    assert opto.parse(edit.text()).text() == edit.text()


def test_dependent_vectors_that_are_not_known_before(model, xs):
    site, vector = "layers.0.resid", drawn(6)
    before = values(model, xs, site)
    projected = jax.jit(
        lambda basis: opto.run(
            model, xs, record=site, edits=[opto.Project(site, basis, axes="d_model")]
        )[1][site]
    )
    expected = before - before @ projector(vector[None])
    np.testing.assert_allclose(
        projected(jnp.asarray([vector] * 2)), expected, atol=1e-5
    )
    np.testing.assert_allclose(projected(jnp.zeros((1, 6))), before, atol=1e-6)


def test_as_pyvene():
    """LowRankRotatedSpaceIntervention of pyvene 0.1.8 on these vectors."""
    x, source = jnp.array([[1.0, 2, 3, 4]]), jnp.array([[0.5, -1, 2, 0]])
    edit = opto.Patch("x", {"x": source}, basis=[[1, 2, 0, 1], [0, 1, 1, -1]])
    out, _ = opto.run(Passed(), x, edits=[edit])
    np.testing.assert_allclose(out, [[-0.8529, -1.0882, 3.6176, 1.5294]], atol=1e-4)


class Passed(eqx.Module):
    input_axes = ("unit",)

    def __call__(self, x, *, tap=opto.identity):
        return tap("x", x, "unit")


REFUSED = {
    "the basis must be [rank, unit], rank no more than unit": dict(basis=drawn(7, 6)),
    "must be [head, rank, d_model]": dict(basis=drawn(6), axes="head d_model"),
    "vectors of length 5, which do not fit layers.0.resid": dict(basis=drawn(5)),
    "the basis is not finite": dict(basis=[0.0, np.nan]),
    "must be linearly independent vectors": dict(basis=[drawn(6)] * 2),
    "must be linearly independent vectors, none of them zero": dict(basis=np.zeros(6)),
    "has no axis 'head'": dict(basis=drawn(2, 1, 6), axes="head d_model"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message, model, xs):
    with pytest.raises(ValueError, match=re.escape(message)):
        opto.run(model, xs, edits=[opto.Project("layers.0.resid", **REFUSED[message])])
