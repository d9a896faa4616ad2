"""Measures of in-context regression, against NumPy and the reference data."""

import dataclasses
import json
import pathlib
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import icl
import opto
from icl import measures
from icl.batches import batch
from icl.compat.gd_upstream import load_model
from icl.experiments import Experiment
from icl.measures import (
    copying,
    descent,
    descent_terms,
    layer_losses,
    noisy_pairs,
    out_of_range,
    roll_out,
)
from icl.models import Attention, ContextOnly, SoftmaxAttention
from icl.models.constructions import descent_block, descent_model, with_block
from icl.models.linear_attention import LinearSelfAttention, LinearSelfAttentionConfig
from icl.tasks.regression import LinearRegression, NoisyValues, RegressionExample
from icl.training import Training


REFERENCE = pathlib.Path(__file__).parents[2] / "shared/data/gd_upstream"
needs_reference = pytest.mark.skipif(
    not REFERENCE.exists(), reason="needs the reference data"
)
TASK = LinearRegression(4, 6, queries=1, pair_noise=NoisyValues(0.4, 0.5))
RATE = 5.0


@pytest.fixture(scope="module")
def drawn():
    return batch(TASK, 50, key=jax.random.key(3))


@pytest.fixture(scope="module")
def gd():
    return descent_model([descent_block(4, 6, RATE)])


@pytest.fixture(scope="module")
def trained():
    """A model that is not gradient descent: random weights, two tied layers."""
    config = LinearSelfAttentionConfig(num_layers=2, tied=True, init_variance=2.0)
    return config.build(TASK.interface, key=jax.random.key(1))


def taken(measure, model, examples, task=TASK):
    return np.asarray(jax.jit(lambda m: measure.fn(m, task, examples, ()))(model))


def arrays(examples):
    """Context, query and target in float64."""
    x, y = (np.asarray(a, np.float64) for a in (examples.x, examples.y))
    return x[:, :-1], y[:, :-1], x[:, -1], y[:, -1]


def read(name):
    with np.load(REFERENCE / f"{name}.npz") as data:
        return dict(data)


def part(data, root):
    chosen = {k[7:]: x for k, x in data.items() if k.startswith(f"params/{root}/")}
    return load_model(chosen, json.loads(str(data["config"])))


@needs_reference
@pytest.mark.parametrize("size", ["d4_n6", "d10_n10"])
def test_the_alignment_of_the_reference(size):
    data = read(f"alignment_{size}")
    loaded = part(data, "transformer")
    model = LinearSelfAttention(loaded.blocks, loaded.positions, 1)
    tokens, rate = data["tokens"], json.loads(str(data["config"]))["eta"]
    y = np.concatenate([tokens[:, :-1, -1], data["target"][:, -1:]], 1)
    x = tokens[..., :-1]
    examples = RegressionExample(*map(jnp.asarray, (x, y, np.zeros_like(x[:, 0]))))
    wanted = {
        "mean_abs_prediction_difference": descent.descent_difference(rate=rate),
        "cosine": descent.descent_cosine(rate=rate),
        "l2": descent.descent_distance(rate=rate),
    }
    for name, measure in wanted.items():
        found = taken(measure, model, examples)
        np.testing.assert_allclose(found, data[name], rtol=1e-5, atol=1e-5)
    root_mean_square = np.sqrt(
        np.mean((data["prediction_model"] - data["prediction_gd"]) ** 2)
    )
    found = taken(descent.descent_difference(rate=rate, power=2.0), model, examples)
    np.testing.assert_allclose(found, root_mean_square, rtol=1e-5)
    path = taken(layer_losses.interpolation_losses(rate, points=3), model, examples)
    np.testing.assert_allclose(path[1], data["interpolated_loss"], rtol=1e-5)


def test_descent_is_aligned_with_itself(drawn, gd, trained):
    assert taken(descent.descent_cosine(), gd, drawn) == pytest.approx(1, abs=1e-5)
    for measure in (
        descent.descent_difference(1, RATE),
        descent.descent_distance(1, RATE),
    ):
        assert taken(measure, gd, drawn) == pytest.approx(0, abs=1e-5)
    plus = descent_model([descent_block(4, 6, RATE, curvature=0.2)], 2)
    same = descent.descent_distance(2, RATE, 0.2)
    assert taken(same, plus, drawn) == pytest.approx(0, abs=1e-5)
    assert taken(descent.descent_cosine(), trained, drawn) < 0.9


def test_the_rate_is_the_best_one(drawn, gd):
    x, y, query, target = arrays(drawn)
    slope = np.einsum("tn,tnd,td->t", y, x, query) / 6
    wanted = slope @ target / (slope @ slope)
    np.testing.assert_allclose(
        taken(descent.descent_rate(), gd, drawn), wanted, rtol=1e-4
    )


# Noisy pairs


@needs_reference
def test_auroc_of_the_reference():
    data = read("noise_auroc")
    for scores, labels, wanted in zip(*data.values(), strict=True):
        found = noisy_pairs.auroc(jnp.asarray(scores), jnp.asarray(labels == 1))
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_auroc_with_one_class_and_without_ties():
    rng = np.random.default_rng(0)
    scores, chosen = rng.normal(size=300), rng.random(300) < 0.3
    pairs = stats.mannwhitneyu(scores[chosen], scores[~chosen]).statistic
    wanted = pairs / chosen.sum() / (~chosen).sum()
    found = noisy_pairs.auroc(jnp.asarray(scores), jnp.asarray(chosen))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    for same in (jnp.zeros(5, bool), jnp.ones(5, bool)):
        assert np.isnan(noisy_pairs.auroc(jnp.arange(5.0), same))


def within(scores, noisy):
    """The share of pairs of one sequence, noisy and clean, that are in order."""
    higher = compared = 0.0
    for row, chosen in zip(scores, noisy, strict=True):
        if chosen.any() and not chosen.all():
            higher += stats.mannwhitneyu(row[chosen], row[~chosen]).statistic
            compared += chosen.sum() * (~chosen).sum()
    return higher / compared


@pytest.fixture(scope="module")
def mixed(trained):
    """A model whose first layer has softmax, its second product attention."""
    attn = Attention(
        5,
        1,
        kind=SoftmaxAttention(),
        num_kv_heads=None,
        mask=ContextOnly(),
        qkv_bias=False,
        scale=None,
        init_scale=2.0,
        key=jax.random.key(2),
    )
    block = eqx.tree_at(lambda b: b.attn, trained.blocks[0], attn)
    return with_block(trained, 0, block)


def test_attention_to_noisy_pairs(drawn, mixed):
    _, record = opto.run(mixed, drawn.x, drawn.y, record="blocks.0.attn.pattern")
    share = np.asarray(record["blocks.0.attn.pattern"])[:, 0, -1, :6]
    noisy = np.asarray(drawn.noisy)
    found = taken(noisy_pairs.noise_attention(), mixed, drawn)
    wanted = [share[~noisy].mean(), share[noisy].mean()]
    np.testing.assert_allclose(found[0], wanted, rtol=1e-5)
    assert np.isnan(found[1]).all()
    found = taken(noisy_pairs.noise_auroc(), mixed, drawn)
    np.testing.assert_allclose(found[0], within(-share, noisy), rtol=1e-4)
    assert np.isnan(found[1])
    control = taken(noisy_pairs.noise_auroc("shuffled"), mixed, drawn)
    assert control[0] != found[0]
    assert abs(control[0] - 0.5) < 0.15


def test_a_pair_may_be_two_tokens():
    zeros = (jnp.zeros(shape) for shape in ((1, 3, 2), (1, 3), (1, 2)))
    examples = RegressionExample(*zeros)
    row = jnp.asarray([[[[0.1, 0.2, 0.3, 0.4]] * 5]])
    np.testing.assert_allclose(noisy_pairs.by_pair(row, examples), [[0.3, 0.7]])
    with pytest.raises(ValueError, match="a multiple of the 2 pairs, got 3"):
        noisy_pairs.by_pair(row[:, :, :4], examples)


def test_influence_of_values(drawn, gd):
    x, _, query, _ = arrays(drawn)
    wanted = RATE / 6 * np.abs(np.einsum("tnd,td->tn", x, query))
    noisy = np.asarray(drawn.noisy)
    found = taken(noisy_pairs.noise_influence(), gd, drawn)
    np.testing.assert_allclose(
        found, [wanted[~noisy].mean(), wanted[noisy].mean()], 1e-4
    )
    found = taken(noisy_pairs.influence_auroc(), gd, drawn)
    np.testing.assert_allclose(found, within(-wanted, noisy), rtol=1e-4)


# Copying


@needs_reference
@pytest.mark.parametrize("name", ["copy_d4_n6_pe6", "copy_d10_n10_pe10"])
def test_copying_of_the_reference(name):
    data = read(name)
    model = part(data, "transformer")
    task = SimpleNamespace(inputs=lambda tokens: (tokens,))
    found = taken(copying.copying(), model, jnp.asarray(data["tokens"]), task)
    wanted = [data[f"grad_{part}"] for part in ("own", "next", "other")]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


# Scales, roll-out, layers


def test_points_of_another_scale(drawn, gd):
    x, y, query, target = arrays(drawn)
    found = taken(out_of_range.ood_curve((0.5, 3.0)), gd, drawn)
    wanted = []
    for a in (0.5, 3.0):
        slope = a**3 * np.einsum("tn,tnd,td->t", y, x, query)  # x, y and the query.
        wanted.append(
            np.sum((RATE / 6 * slope - a * target) ** 2) / np.sum((a * target) ** 2)
        )
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_a_layer_applied_again_and_again(drawn, gd):
    x, y, query, target = arrays(drawn)
    rate, losses = 0.75 * 16.0, []
    for n in range(len(x)):
        w, row = np.zeros(4), []
        for _ in range(21):
            row.append(0.5 * (w @ query[n] - target[n]) ** 2)
            w = w - rate / 6 * (x[n] @ w - y[n]) @ x[n]
        losses.append(row)
    losses = np.array(losses)
    model = descent_model([descent_block(4, 6, 16.0)])
    found = taken(roll_out.roll_out(20, 0.75), model, drawn)
    np.testing.assert_allclose(found[:, 0], losses.mean(0), rtol=2e-3)
    wanted = np.sort(losses, 0)[[25, 5, 44]]  # Of 50: at 24.5, 4.9 and 44.1.
    np.testing.assert_allclose(found[:, 1:4], wanted.T, rtol=2e-3, atol=1e-6)
    diverged = (losses > 10 * 0.5 * np.mean(target**2)).mean(0)
    np.testing.assert_allclose(found[:, 4], diverged, atol=1e-6)
    assert 0 < diverged[-1] < 1


def test_several_queries():
    """Each is answered as if it were the only one."""
    several = LinearRegression(4, 6, queries=3)
    examples = batch(several, 30, key=jax.random.key(5))
    block = descent_block(4, 6, RATE, curvature=0.1, queries=3)
    model = descent_model([block], 2)
    alone = descent_model([descent_block(4, 6, RATE, curvature=0.1)], 2)
    kept = [0, 1, 2, 3, 4, 5, 7]  # The context and the query in the middle.
    x, y = examples.x[:, kept], examples.y[:, kept]
    found = jax.vmap(model)(examples.x, examples.y)[:, 1]
    np.testing.assert_allclose(found, jax.vmap(alone)(x, y), rtol=1e-5, atol=1e-6)
    same = descent.descent_distance(2, RATE, 0.1)
    assert taken(same, model, examples, several) == pytest.approx(0, abs=1e-5)
    rolled = taken(roll_out.roll_out(2, 1.0), model, examples, several)
    losses = taken(layer_losses.layer_losses(), model, examples, several)
    np.testing.assert_allclose(rolled[:2, 0], losses[:2], rtol=1e-5)


def test_losses_that_are_not_finite(drawn):
    losses = jnp.asarray([[jnp.nan], [jnp.inf], [0.1], [0.2], [0.3]])
    mean, median, low, high, lost = np.asarray(roll_out.spread(losses, drawn))[0]
    assert np.isnan(mean)
    assert np.isinf(high)
    np.testing.assert_allclose([median, low, lost], [0.3, 0.1, 0.4])


def test_losses_of_layers(drawn, trained):
    sites = ("embed", "blocks.0.resid_post", "blocks.1.resid_post")
    _, record = opto.run(trained, drawn.x, drawn.y, record=sites)
    target = arrays(drawn)[-1]
    wanted = [
        0.5 * np.mean((-np.asarray(record[site])[:, -1, -1] - target) ** 2)
        for site in sites
    ]
    found = taken(layer_losses.layer_losses(), trained, drawn)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_layers_replaced_by_the_construction(drawn, trained):
    block = descent_block(4, 6, RATE, curvature=0.1)
    found = taken(layer_losses.constructed_losses(RATE, 0.1), trained, drawn)
    target = arrays(drawn)[-1]
    for layer in range(2):
        model = with_block(trained, layer, block)
        assert len(model.blocks) == 2
        other = model.blocks[1 - layer].attn.query.weight
        np.testing.assert_array_equal(other, trained.blocks[0].attn.query.weight)
        error = np.asarray(jax.vmap(model)(drawn.x, drawn.y)) - target
        np.testing.assert_allclose(found[layer], 0.5 * np.mean(error**2), rtol=1e-5)
    descending = descent_model([block], 2)
    path = taken(layer_losses.interpolation_losses(RATE, 0.1, 3), descending, drawn)
    np.testing.assert_allclose(path, path[0], rtol=1e-5)
    with pytest.raises(ValueError, match=r"layer must be in \[0, 2\), got 2"):
        with_block(trained, 2, block)


# The second basin


def swapped(u, v):
    """A layer whose keys read y and whose values read x: a step along one direction."""
    zeros = np.zeros((5, 5))
    query, key, value, output = (zeros.copy() for _ in range(4))
    query[0, :4], key[0, 4] = u, 1.0
    value[0, :4], output[4, 0] = v, -1.0
    block = descent_block(4, 6, 1.0)
    where = lambda b: [
        layer.weight
        for layer in (b.attn.query, b.attn.key, b.attn.value, b.attn.output)
    ]
    return descent_model(
        [eqx.tree_at(where, block, [*map(jnp.asarray, (query, key, value, output))])]
    )


def test_the_swapped_solution_reads_values_by_its_keys(drawn, gd):
    u, v = np.array([1.0, -0.5, 0.2, 0.0]), np.array([0.3, 0.4, 0.0, -1.0])
    model = swapped(u.astype(np.float32), v.astype(np.float32))
    x, y, query, target = arrays(drawn)
    step = np.einsum("td,de,tne,tn->t", query, np.outer(u, v), x, y)
    np.testing.assert_allclose(
        jax.vmap(model)(drawn.x, drawn.y), step, rtol=1e-4, atol=1e-6
    )
    zero, plain = 0.5 * np.mean(target**2), 0.5 * np.mean((step - target) ** 2)
    without = {
        k: taken(descent_terms.loss_without_values(k), model, drawn) for k in "kv"
    }
    np.testing.assert_allclose([without["k"], without["v"]], [zero, plain], rtol=1e-4)
    sizes = taken(descent_terms.descent_terms(), model, drawn)
    np.testing.assert_allclose(sizes, [0, np.linalg.norm(np.outer(u, v))], atol=1e-5)
    sizes = taken(descent_terms.descent_terms(), gd, drawn)
    np.testing.assert_allclose(sizes, [RATE / 6 * 2, 0], rtol=1e-5)
    without = taken(descent_terms.loss_without_values("v"), gd, drawn)
    np.testing.assert_allclose(without, zero, rtol=1e-5)


# Texts


TEXTS = (
    "descent_difference(rate=6.0, power=2.0)",
    "descent_cosine(steps=2)",
    "descent_distance(rate=6.0, curvature=0.1)",
    "descent_rate",
    "noise_influence",
    "influence_auroc('shuffled')",
    "ood_curve(scales=(0.5, 2.0))",
    "roll_out(steps=3)",
    "layer_losses",
    "constructed_losses(rate=6.0)",
    "interpolation_losses(points=3)",
    "descent_terms",
    "loss_without_values",
    "copying",
)


def test_texts_are_read_and_replayed(tmp_path):
    experiment = Experiment(
        task=TASK,
        model=LinearSelfAttentionConfig(),
        training=Training(64, batch_size=16),
        evaluations={"train": icl.TaskSet(20)},
    )
    icl.run_experiment(experiment, tmp_path / "run")
    found = {text: measures.parse(text) for text in TEXTS}
    replay = icl.replay(
        tmp_path / "run", {str(k): m for k, m in enumerate(found.values())}
    )
    for k, text in enumerate(TEXTS):
        assert len(replay[str(k)]) == 2
        assert np.isfinite(replay[str(k)]).all(), text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: descent.descent_cosine(1, -1.0), "rate must be positive and finite"),
        (lambda: descent.descent_distance(1, None, 0.1), "needs a rate, got None"),
        (lambda: noisy_pairs.noise_auroc("all"), "mask must be one of noisy, shuffled"),
        (lambda: out_of_range.ood_curve((0.0,)), "scales must be positive and finite"),
        (lambda: roll_out.roll_out(1, 0.0), "damping must be positive and finite"),
    ],
)
def test_bad_arguments(make, message, unchecked):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_a_batch_or_a_model_does_not_have(drawn, gd, unchecked):
    with pytest.raises(ValueError, match="its rows are signed"):
        noisy_pairs.noise_auroc().fn(gd, TASK, drawn, ())
    plain = dataclasses.replace(drawn, noisy=None)
    with pytest.raises(ValueError, match="pair_noise is None"):
        noisy_pairs.influence_auroc().fn(gd, TASK, plain, ())
    with pytest.raises(ValueError, match=r"needs sequences of icl\.tasks\.regression"):
        descent.descent_cosine().fn(gd, TASK, np.zeros(3), ())
    other = SimpleNamespace(blocks=(), num_layers=1)
    for measure in (roll_out.roll_out(2), layer_losses.constructed_losses(1.0)):
        with pytest.raises(ValueError, match="LinearSelfAttention, got SimpleNamesp"):
            measure.fn(other, TASK, drawn, ())
