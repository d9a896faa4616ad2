"""Models of regression against NumPy; what queries see; orders that change nothing."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import oracles
import pytest
from kinds import shaken

import opto
from icl.batches import batch
from icl.models import Causal, Everything, QueriesSeeContext
from icl.models.linear_attention import LinearSelfAttentionConfig
from icl.models.regression_transformer import RegressionTransformerConfig
from icl.models.softmax_copy import SoftmaxCopyConfig
from icl.models.stack import ResidualUpdate
from icl.models.supervision import EveryLayer
from icl.tasks.discrimination import ShiftedMean
from icl.tasks.regression import GaussianInputs, LinearRegression, SmallToLargeNorm


TASK = LinearRegression(3, 5, GaussianInputs(), queries=2)
SMALL = RegressionTransformerConfig(num_layers=2, d_model=8, num_heads=2)
MODELS = {
    "lsa": LinearSelfAttentionConfig(num_layers=2, init_variance=0.3),
    "copy": SoftmaxCopyConfig(position_channels=4),
    "transformer": SMALL,
    "causal": dataclasses.replace(SMALL, context_mask=Causal()),
}
each_model = pytest.mark.parametrize("name", MODELS)


def made(config, task=TASK, shake=True):
    model = config.build(task.interface, key=jax.random.key(0))
    model = shaken(model, jax.random.key(1)) if shake else model
    example = task.sample(key=jax.random.key(2), seen=0)
    return model, *task.inputs(example)


def f64(layer):
    """A layer's weight as `[in, out]`, and its bias or 0."""
    bias = 0 if layer.bias is None else np.asarray(layer.bias, np.float64)
    return np.asarray(layer.weight, np.float64).T, bias


def through(layer, x):
    weight, bias = f64(layer)
    return x @ weight + bias


def normed(layer, x):
    return oracles.layer_norm(x, *(np.float64(a) for a in (layer.weight, layer.bias)))


def test_the_transformer_overfits_a_single_task():
    """Sequences of one teacher w; the answers are w · x, though queries show no y."""
    rng = np.random.default_rng(0)
    teacher, x = rng.normal(size=3), rng.normal(size=(8, 7, 3))
    wanted = x[:, -2:] @ teacher
    x, y = (jnp.asarray(each, jnp.float32) for each in (x, x @ teacher))
    model, *_ = made(SMALL, shake=False)
    optimizer = optax.adam(optax.cosine_decay_schedule(1e-2, 400))

    arrays, static = eqx.partition(model, eqx.is_array)

    def loss(arrays):
        found = jax.vmap(eqx.combine(arrays, static))(x, y)
        return jnp.mean((found - y[:, -2:]) ** 2), found

    def step(carry, _):
        arrays, state = carry
        slope, _ = jax.grad(loss, has_aux=True)(arrays)
        updates, state = optimizer.update(slope, state)
        return (optax.apply_updates(arrays, updates), state), None

    start = arrays, optimizer.init(arrays)
    (trained, _), _ = jax.lax.scan(step, start, length=400)
    assert loss(arrays)[0] > 0.3
    np.testing.assert_allclose(loss(trained)[1], wanted, atol=0.02)


# Against NumPy


def transformer(model, x, y, seen):
    """The residual streams after each layer, and each layer's predictions."""
    queries = len(x) - len(y)
    known = np.concatenate([y, np.zeros(queries)])
    marks = np.concatenate([np.zeros(len(y)), np.ones(queries)])
    tokens = np.concatenate([x, known[:, None], marks[:, None]], 1)
    stream, streams = through(model.embedding, tokens), []
    for block in model.blocks:
        attn, inside = block.attn, normed(block.attn_norm, stream)
        q, k, v = (
            through(layer, inside).reshape(len(x), attn.num_heads, -1)
            for layer in (attn.query, attn.key, attn.value)
        )
        z = np.zeros_like(q)
        for i, head in np.ndindex(len(x), attn.num_heads):
            keys = [j for j in range(len(x)) if seen(i, j)]
            z[i, head] = (
                oracles.softmax_weights(q[i, head], k[keys, head]) @ v[keys, head]
            )
        stream = stream + through(attn.output, z.reshape(len(x), -1))
        hidden = through(block.mlp.expand, normed(block.mlp_norm, stream))
        stream = stream + through(block.mlp.contract, oracles.gelu(hidden))
        streams.append(stream)
    read = [through(model.readout, normed(model.final_norm, s)) for s in streams]
    return streams, np.stack(read)[:, -queries:, 0]


@pytest.mark.parametrize("context", [Everything(), Causal()])
def test_the_transformer(context):
    config = dataclasses.replace(
        SMALL, context_mask=context, supervision=EveryLayer(), positions=SMALL.positions
    )
    model, x, y = made(config)
    pairs = TASK.context

    def seen(query, key):
        if query >= pairs:
            return key < pairs or key == query
        return key < pairs and (context == Everything() or key <= query)

    found, record = opto.run(model, x[None], y[None], record="**.resid_post")
    streams, wanted = transformer(model, np.float64(x), np.float64(y[:pairs]), seen)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-5)
    # The same read-out works on recorded streams.
    for i, stream in enumerate(streams):
        there = record[f"blocks.{i}.resid_post"][0]
        np.testing.assert_allclose(there, stream, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(model.read(there), wanted[i], rtol=1e-4, atol=1e-5)
    final = dataclasses.replace(config, supervision=SMALL.supervision)
    model, x, y = made(final)
    np.testing.assert_allclose(model(x, y), wanted[-1], rtol=1e-4, atol=1e-5)


def test_softmax_copy():
    model, x, y = made(MODELS["copy"])
    points, values = np.float64(x), np.float64(y)
    tokens = []
    for i in range(TASK.context):
        tokens += [[*points[i], 0], [0, 0, 0, values[i]]]
    tokens += [[*point, 0] for point in points[TASK.context :]]
    table = oracles.sinusoid(len(tokens), 4, 1e4)
    stream = np.concatenate([tokens, table], 1)
    context = 2 * TASK.context
    assert model.blocks[0].attn.query.weight.shape == (8, 8)
    for layer, block in enumerate(model.blocks):
        q, k, v = (
            through(part, stream)
            for part in (block.attn.query, block.attn.key, block.attn.value)
        )
        weights = oracles.softmax_weights if layer == 0 else oracles.product_weights
        pattern = np.stack([weights(row, k[:context]) for row in q])
        stream = stream + through(block.attn.output, pattern @ v[:context])
    # The values' own channel, not the last one.
    np.testing.assert_allclose(model(x, y), -stream[-2:, 3], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["lsa", "copy"])
@pytest.mark.parametrize("queries", [1, 2, 4])
def test_fewer_rows_and_sums_first_change_nothing(name, queries):
    """Without a request, the last layer computes only the queries' rows."""
    task = dataclasses.replace(TASK, queries=queries)
    model, x, y = made(MODELS[name], task)
    found, record = opto.run(model, x[None], y[None], record="**.pattern")
    assert len(record) == 2
    np.testing.assert_allclose(model(x, y), found[0], rtol=1e-4, atol=1e-5)


def test_initial_weights():
    """`VarianceScaling(scale / layers)` of the public code: fan-in, truncated."""
    model, *_ = made(SoftmaxCopyConfig(), LinearRegression(), shake=False)
    weights = [np.asarray(b.attn.query.weight) for b in model.blocks]
    assert weights[0].shape == (21, 21)
    np.testing.assert_allclose(np.std(weights), np.sqrt(0.02 / 2 / 21), rtol=0.1)


# What queries see


def test_what_a_mask_says():
    seen = QueriesSeeContext(2, Causal()).seen(5, 0).astype(int)
    wanted = [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]
    wanted += [[1, 1, 1, 1, 0], [1, 1, 1, 0, 1]]
    np.testing.assert_array_equal(seen, wanted)
    np.testing.assert_array_equal(QueriesSeeContext(2).seen(5, 3), wanted[3:])
    with pytest.raises(ValueError, match="leaves no context of 2 tokens"):
        QueriesSeeContext(2).seen(2, 0)


@each_model
def test_nothing_leaks_from_queries(name):
    """Predictions depend on their own query and the pairs, pairs on no query."""
    model, x, y = made(MODELS[name])
    pairs, layers = TASK.context, model.num_layers
    sites = [f"blocks.{i}.resid_post" for i in range(layers)]

    def outputs(x, y):
        found, record = opto.run(model, x[None], y[None], record=sites)
        return found[0], [record[site][0] for site in sites]

    (by_x, by_y), streams = jax.jit(jax.jacobian(outputs, (0, 1)))(x, y)
    size = np.abs(by_x).sum(-1)  # [query, point]
    assert np.all(size[:, :pairs] > 0)
    np.testing.assert_array_equal(size[:, pairs:] > 0, np.eye(2, dtype=bool))
    assert np.all(np.abs(by_y[:, :pairs]) > 0)
    assert np.all(np.asarray(by_y[:, pairs:]) == 0)
    for by in (part for pair in streams for part in pair):
        context = len(by) - TASK.queries
        # [token, channel, point, …]
        assert np.all(np.asarray(by[:context, :, pairs:]) == 0)
        assert np.any(np.asarray(by[:context, :, :pairs]) != 0)


# Orders


@pytest.mark.parametrize("name", ["lsa", "transformer"])
def test_without_positions_the_order_of_pairs_changes_nothing(name):
    model, *_ = made(MODELS[name])
    ordered = dataclasses.replace(TASK, ordering=SmallToLargeNorm())
    drawn = [batch(task, 16, key=jax.random.key(3)) for task in (TASK, ordered)]
    assert not np.array_equal(drawn[0].x, drawn[1].x)
    found = [jax.vmap(model)(examples.x, examples.y) for examples in drawn]
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["copy", "causal"])
def test_with_positions_or_a_causal_context_it_does(name):
    model, x, y = made(MODELS[name])
    order = jnp.array([1, 0, 2, 3, 4, 5, 6])
    assert np.abs(model(x, y) - model(x[order], y[order])).max() > 1e-4


# Supervision


def test_the_loss_of_every_layer():
    one = dataclasses.replace(TASK, queries=1)
    for task, shape in ((TASK, (2,)), (one, ())):
        config = dataclasses.replace(MODELS["lsa"], supervision=EveryLayer())
        model, x, y = made(config, task)
        example = task.sample(key=jax.random.key(2), seen=0)
        found = task.forward(model, example)
        assert found.shape == (2, *shape)
        target = np.float64(example.query_y).reshape(shape)
        errors = 0.5 * (np.float64(found) - target) ** 2
        scores = task.metrics(found, example)
        np.testing.assert_allclose(scores["loss"], errors.mean(), rtol=1e-5)
        each = errors.reshape(2, -1).mean(1)
        np.testing.assert_allclose(scores["layer_loss"], each, rtol=1e-5)
        np.testing.assert_array_equal(scores["prediction"], found[-1])
        last = made(MODELS["lsa"], task)[0](x, y)
        np.testing.assert_allclose(last, found[-1], rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RegressionTransformerConfig(num_heads=3), "num_heads must divide"),
        (lambda: RegressionTransformerConfig(mlp_ratio=0.0), "mlp_ratio must be"),
        (lambda: RegressionTransformerConfig(init_scale=0.0), "init_scale must be"),
        (lambda: SoftmaxCopyConfig(()), "number of layers in attention must be"),
        (lambda: SoftmaxCopyConfig(position_channels=0), "position_channels must be"),
        (
            lambda: SoftmaxCopyConfig(update=ResidualUpdate(channels="last")),
            "update.channels must be 'all'",
        ),
        (
            lambda: SoftmaxCopyConfig().build(
                ShiftedMean().interface, key=jax.random.key(0)
            ),
            "SoftmaxCopyConfig needs points .*; this task has",
        ),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()
