"""Modules in the stream, and dictionaries of features that are known."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tapped

import opto
from opto.dictionary import Dictionary, ReLU, TopK, train


SITE = "layers.0.resid"
FEATURES = f"{SITE}.sae.features"


@pytest.fixture
def model():
    return tapped.Ragged(jax.random.key(0))


@pytest.fixture
def xs():
    return jax.random.normal(jax.random.key(1), (4, 5, 6))


@pytest.fixture
def sae():
    return Dictionary(6, 9, ReLU(0.1), key=jax.random.key(2))


def test_without_an_edit_outputs_are_unchanged(model, xs, sae):
    spliced = opto.splice(model, SITE, sae, name="sae")
    out, record = opto.run(spliced, xs, record="**")
    plain, before = opto.run(model, xs, record="**")
    np.testing.assert_allclose(out, plain, rtol=1e-5, atol=1e-5)
    assert {*record} - {*before} == {f"{SITE}.sae", FEATURES, f"{SITE}.sae.error"}
    x = np.float64(before[SITE])
    features = np.maximum(x @ np.float64(sae.encode).T, 0)
    np.testing.assert_allclose(record[FEATURES], features, atol=1e-5)
    missed = x - features @ np.float64(sae.decode)
    np.testing.assert_allclose(record[f"{SITE}.sae.error"], missed, atol=1e-5)
    assert opto.sites(spliced, xs)[FEATURES].axes == ("seq", "feature")
    # Without the error, the module's output goes on.
    bare = opto.splice(model, SITE, sae, name="sae", error=False)
    out, _ = opto.run(bare, xs)
    edits = [opto.Patch(SITE, {SITE: features @ np.float64(sae.decode)})]
    np.testing.assert_allclose(out, opto.run(model, xs, edits=edits)[0], atol=1e-5)


def test_features_are_edited_and_swept(model, xs, sae):
    spliced = opto.splice(model, SITE, sae, name="sae")
    _, record = opto.run(spliced, xs, record=[FEATURES, SITE])
    metric = lambda out, xs: out.sum((1, 2))
    each = opto.Zero(FEATURES).each("feature")
    swept = opto.sweep(metric, spliced, xs, edits=each)
    for i in range(9):
        less = record[FEATURES][..., i, None] * sae.decode[i]
        edit = opto.Patch(SITE, {SITE: record[SITE] - less})
        out = opto.run(model, xs, edits=[edit])[0] if np.any(less) else None
        if out is not None:
            np.testing.assert_allclose(swept[i], metric(out, xs), rtol=1e-4, atol=1e-4)
    # Splices nest, and an edit of the inner one passes through the outer one.
    twice = opto.splice(spliced, "layers.1.z", Doubled(), name="more", error=False)
    _, record = opto.run(twice, xs, record="layers.1.z*", edits=[opto.Zero(FEATURES)])
    assert opto.sites(twice, xs)["layers.1.z.more"].axes == ("head", "seq", "d_head")


class Doubled(eqx.Module):
    def __call__(self, x, *, axes, tap=opto.identity):
        return tap("inner", 2 * x, axes)


def test_a_transcoder_reads_another_site(model, xs):
    module = Dictionary(6, 7, ReLU(0.1), out=6, key=jax.random.key(3))
    spliced = opto.splice(model, "layers.1.out", module, name="code", reads=SITE)
    _, record = opto.run(spliced, xs, record=["layers.1.out.code.features", SITE])
    expected = module.features(record[SITE])
    np.testing.assert_allclose(
        record["layers.1.out.code.features"], expected, atol=1e-5
    )
    same, _ = opto.run(model, xs)
    np.testing.assert_allclose(opto.run(spliced, xs)[0], same, atol=1e-5)


AS_SAELENS = {
    ReLU(1.0): (
        [[1.6, 0, 1.25, 0, 2], [0, 1.1, 0, 1.725, 0]],
        [[1.8, 1.15, 2.05], [1.58, 0.56, -0.105]],
    ),
    TopK(2): (
        [[1.6, 0, 0, 0, 2], [0, 1.1, 0, 1.725, 0]],
        [[1.8, -0.1, 2.05], [1.58, 0.56, -0.105]],
    ),
}


@pytest.mark.parametrize("activation", AS_SAELENS, ids=lambda a: type(a).__name__)
def test_as_saelens(activation):
    """`StandardSAE` and `TopKSAE` of SAELens 6.54 with these weights."""
    rows = [[0.5, -1, 0.25], [1, 0.5, -0.5], [-0.25, 1, 1], [0.75, 0, -1], [1, 1, 1]]
    written = [[1, 0, 0], [0, 0.6, 0.8], [0, 1, 0], [0.8, 0, -0.6], [0, 0, 1]]
    biases = [0.1, -0.2, 0, 0.3, -0.5], [0.2, -0.1, 0.05]
    sae = eqx.tree_at(
        lambda d: (d.encode, d.decode, d.encode_bias, d.decode_bias),
        Dictionary(3, 5, activation, key=jax.random.key(0)),
        tuple(jnp.array(x, float) for x in (rows, written, *biases)),
    )
    features = sae.features(jnp.array([[1, -0.5, 2], [0.3, 0.8, -1.2]]))
    expected = AS_SAELENS[activation]
    np.testing.assert_allclose(features, expected[0], atol=1e-6)
    np.testing.assert_allclose(sae.written(features), expected[1], atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*features are dead")
@pytest.mark.parametrize("activation", [TopK(2), ReLU(0.2)], ids=["topk", "relu"])
def test_planted_features_are_found(activation):
    """16 features in 12 dimensions, two of them at a time."""
    rng = np.random.default_rng(0)
    planted = rng.normal(size=(16, 12))
    planted /= np.linalg.norm(planted, axis=-1, keepdims=True)
    which = rng.permuted(np.tile(np.arange(16), (4000, 1)), axis=1)[:, :2]
    sizes = np.zeros((4000, 16))
    np.put_along_axis(sizes, which, rng.uniform(0.5, 1.5, (4000, 2)), 1)
    start = Dictionary(12, 24, activation, key=jax.random.key(4))
    options = dict(steps=2000, batch_size=256, optimizer=optax.adam(3e-3))
    found = train(start, jnp.asarray(sizes @ planted, jnp.float32), **options)
    decode = np.asarray(found.dictionary.decode)
    decode = decode / np.linalg.norm(decode, axis=-1, keepdims=True)
    best = np.abs(planted @ decode.T).max(-1)
    assert best.mean() > 0.95, best
    assert found.losses[-1] < found.losses[0] / 5


def test_dead_features_are_said():
    start = Dictionary(3, 4, ReLU(0.0), key=jax.random.key(0))
    dead = eqx.tree_at(lambda d: d.encode_bias, start, jnp.array([-99.0, 0, 0, 0]))
    with pytest.warns(UserWarning, match=r"[1-4] of 4 features are dead"):
        found = train(dead, jnp.ones((8, 3)), steps=1)
    assert found.active[0] == 0


def test_of_equal_features_only_k_are_kept():
    kept = TopK(2)(jnp.array([[1.0, 1, 1, 0], [0, 2, -1, -3]]))
    np.testing.assert_array_equal(kept, [[1, 1, 0, 0], [0, 2, 0, 0]])


REFUSED = {
    "k is a whole number, 1 or more, got 0": lambda m, x, sae: TopK(0),
    "TopK must have k at most 4, got TopK(k=5)": lambda m, x, sae: Dictionary(
        3, 4, TopK(5), key=jax.random.key(0)
    ),
    "the dictionary is for vectors of 6, got (5, 5)": lambda m, x, sae: sae(
        x[0, :, 1:]
    ),
    "the dictionary is for vectors of (6, 6), got (4, 5)": lambda m, x, sae: train(
        sae, jnp.ones((4, 5)), steps=1
    ),
    "module must be callable, got 3": lambda m, x, sae: opto.splice(
        m, SITE, 3, name="a"
    ),
    "reads='layers.1.resid' does not come before": lambda m, x, sae: opto.run(
        opto.splice(m, SITE, sae, name="sae", reads="layers.1.resid"), x
    ),
    "module must give the shape of 'layers.0.resid', (5, 6)": lambda m, x, sae: (
        opto.run(opto.splice(m, SITE, lambda x, axes, tap: x[1:], name="a"), x)
    ),
    "the model has no site 'layers.0.rsid'": lambda m, x, sae: opto.sites(
        opto.splice(m, "layers.0.rsid", sae, name="sae"), x
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message, model, xs, sae):
    with pytest.raises(ValueError, match=re.escape(message)):
        REFUSED[message](model, xs, sae)
