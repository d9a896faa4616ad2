"""Gaussian discrimination: the tasks, the exact Bayes predictors, the baselines."""

import dataclasses
import itertools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from icl.baselines import discrimination as baselines
from icl.batches import batch
from icl.models.encoder import (
    EncoderConfig,
    InterleavedTokens,
    PointTokens,
    SummedTokens,
)
from icl.presets.likelihood_ratio import shifted_mean
from icl.summaries import RankCorrelation, summarise
from icl.tasks.discrimination import (
    NoisyLabels,
    ShiftedMean,
    ShuffledLabels,
    ShuffledPairs,
    Variance,
)


REFERENCE = pathlib.Path(__file__).parents[2] / "shared/data/likelihood_ratio"
needs_reference = pytest.mark.skipif(
    not REFERENCE.exists(), reason="needs the reference data"
)


def read(name):
    with np.load(REFERENCE / f"{name}.npz") as data:
        return dict(data)


def drawn(task, size=1000, seed=0):
    return batch(task, size, key=jax.random.key(seed), seen=0)


def bayes(task, examples):
    with jax.enable_x64(True):
        xs = (jnp.asarray(x, float) for x in (examples.context_x, examples.query_x))
        context_x, query_x = xs
        labels = jnp.asarray(examples.context_y)
        return np.asarray(jax.vmap(task.log_odds)(context_x, labels, query_x))


def drawn_odds(task, data):
    """The log-odds in the precision of a drawn example."""
    labels = data["context_y"].astype(np.int32)
    return jax.vmap(task.log_odds)(data["context_x"], labels, data["query_x"])


# The exact Bayes predictors


@needs_reference
@pytest.mark.parametrize(
    "name", ["d16_n32", "d4_n6", "d4_n6_noshift", "d2_n5_grid"], ids=str
)
def test_shifted_mean_of_the_reference(name):
    data = read(f"task_A_{name}")
    _, context, dim = data["context_x"].shape
    task = ShiftedMean(dim, context, float(data["sigma_k"]))
    examples = _Reference(data)
    np.testing.assert_allclose(bayes(task, examples), data["bayes_logit"], atol=1e-12)
    np.testing.assert_allclose(drawn_odds(task, data), data["bayes_logit"], atol=1e-5)
    if "bayes_logit_grid" in data:
        grid = data["bayes_logit_grid"]
        np.testing.assert_allclose(bayes(task, examples), grid, atol=1e-10)
    ratio = [
        2 * mu @ (x - k)
        for mu, x, k in zip(data["mu"], data["query_x"], data["k"], strict=True)
    ]
    np.testing.assert_allclose(data["llr_query"], ratio, atol=1e-5)
    ours = jax.vmap(lambda x, mean, shift: _ratio(task, x, mean=mean, shift=shift))
    found = ours(data["query_x"], data["mu"], data["k"])
    np.testing.assert_allclose(found, data["llr_query"], rtol=1e-5, atol=1e-5)


@needs_reference
@pytest.mark.parametrize("name", ["d16_n32", "d4_n6"])
def test_variance_of_the_reference(name):
    data = read(f"task_B_{name}")
    _, context, dim = data["context_x"].shape
    task = Variance(dim, context, float(data["sigma_min"]), float(data["sigma_max"]))
    examples = _Reference(data)
    for oracle in ("bayes_logit", "bayes_logit_quad"):
        np.testing.assert_allclose(bayes(task, examples), data[oracle], atol=1e-10)
        np.testing.assert_allclose(drawn_odds(task, data), data[oracle], atol=1e-5)
    stds = np.stack([data["sigma_0"], data["sigma_1"]], 1)
    found = jax.vmap(lambda x, stds: _ratio(task, x, stds=stds))(data["query_x"], stds)
    np.testing.assert_allclose(found, data["llr_query"], rtol=1e-5, atol=2e-5)


class _Reference:
    def __init__(self, data):
        self.context_x, self.query_x = data["context_x"], data["query_x"]
        self.context_y = data["context_y"].astype(np.int32)


def _ratio(task, x, **parameters):
    return task.log_likelihood_ratio(x, parameters)


@pytest.mark.parametrize(
    ("dim", "nuisance_std", "mean_norm"),
    [
        *itertools.product([2, 3, 16, 40], [0.0, 0.5, 9.0], [1.0]),
        *((3, 0.5, 0.2), (16, 3.0, 4.0), (5, 0.0, 50.0)),
    ],
)
def test_shifted_mean_against_bessel_functions(dim, nuisance_std, mean_norm):
    """The closed form of the report (attn.md, 4), with SciPy's Bessel function."""
    task = ShiftedMean(dim, 12, nuisance_std, mean_norm=mean_norm)
    examples = drawn(task, 20)

    def logarithm(h):
        r, v = mean_norm * np.linalg.norm(h), dim / 2 - 1
        return np.log(special.ive(v, r)) + r - v * np.log(r)

    wanted = []
    for x, y, query in zip(
        np.asarray(examples.context_x, float),
        np.asarray(examples.context_y),
        np.asarray(examples.query_x, float),
        strict=True,
    ):
        signs = 2.0 * y - 1
        inverse = 0.0 if nuisance_std == 0 else 1 / (len(y) + 1 + nuisance_std**-2)
        total, balance = x.sum(0) + query, signs.sum()
        plus = signs @ x + query - (balance + 1) * inverse * total
        minus = signs @ x - query - (balance - 1) * inverse * total
        rest = 2 * balance * inverse * mean_norm**2
        wanted.append(logarithm(plus) - logarithm(minus) + rest)
    np.testing.assert_allclose(bayes(task, examples), wanted, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(examples.log_odds, wanted, rtol=1e-5, atol=1e-5)


def test_one_component_has_two_possible_means():
    """For d = 1 the mean is 1 or -1; the shift is integrated by SciPy."""
    task = ShiftedMean(1, 3, 0.8)
    examples = drawn(task, 5)

    def evidence(x, signs):
        def of(shift, mean):
            points = stats.norm.pdf(x - signs * mean - shift).prod()
            return points * stats.norm.pdf(shift, scale=0.8)

        of_mean = [integrate.quad(of, -9, 9, (m,), epsabs=1e-14)[0] for m in (1, -1)]
        return sum(of_mean)

    for k in range(5):
        x = np.append(examples.context_x[k, :, 0], examples.query_x[k, 0])
        signs = 2.0 * examples.context_y[k] - 1
        one, zero = (evidence(x, np.append(signs, s)) for s in (1, -1))
        assert bayes(task, examples)[k] == pytest.approx(np.log(one / zero), abs=1e-7)


@pytest.mark.parametrize(("dim", "context"), [(1, 2), (4, 6), (16, 64)])
def test_variance_against_adaptive_quadrature(dim, context):
    task = Variance(dim, context, 0.3, 2.0)
    examples = drawn(task, 8)

    def evidence(squares, count):
        def log_density(s):
            return -dim * count * np.log(s) - squares / (2 * s**2)

        peak = np.clip(np.sqrt(squares / max(dim * count, 1)), 0.3, 2.0)
        top = log_density(peak)
        near = sorted({0.3, *np.clip(peak * np.array([0.8, 1, 1.25]), 0.3, 2.0), 2.0})
        density = lambda s: np.exp(log_density(s) - top)
        value = sum(
            integrate.quad(density, a, b, epsabs=1e-15)[0]
            for a, b in itertools.pairwise(near)
        )
        return top + np.log(value)

    for k in range(8):
        x = np.asarray(examples.context_x[k], float)
        y = np.asarray(examples.context_y[k])
        own = np.sum(np.asarray(examples.query_x[k], float) ** 2)
        gains = [
            evidence((x[y == c] ** 2).sum() + own, (y == c).sum() + 1)
            - evidence((x[y == c] ** 2).sum(), (y == c).sum())
            for c in (0, 1)
        ]
        wanted = gains[1] - gains[0]
        assert bayes(task, examples)[k] == pytest.approx(wanted, abs=1e-9, rel=1e-9)


def test_other_priors_of_shifted_mean_against_a_grid():
    """All joint probabilities, as sums over grids of the mean's angle and the shift."""
    task = ShiftedMean(2, 5, 0.8, mean_norm=1.7, label_prior=0.8)
    examples = drawn(task, 4)
    angles = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    means = 1.7 * np.stack([np.cos(angles), np.sin(angles)], -1)[:, None, None]
    steps = np.linspace(-6, 6, 49)
    shifts = np.stack(np.meshgrid(steps, steps, indexing="ij"), -1)
    log_shift = stats.norm.logpdf(shifts, scale=0.8).sum(-1)

    def joint(x, y):
        log_points = sum(
            stats.norm.logpdf(point - (2 * label - 1) * means - shifts).sum(-1)
            for point, label in zip(x, y, strict=True)
        )
        labels = stats.bernoulli.pmf(y, 0.8).prod()
        return labels * np.exp(log_points + log_shift).sum()

    _check_odds(task, examples, joint)
    assert drawn(task, 20_000).query_y.mean() == pytest.approx(0.8, abs=0.015)
    lengths = np.linalg.norm(examples.parameters["mean"], axis=-1)
    np.testing.assert_allclose(lengths, 1.7, rtol=1e-6)


def test_another_prior_of_variance_against_a_grid():
    task = Variance(2, 6, 0.5, 2.0, label_prior=0.2)
    examples = drawn(task, 6)
    nodes, weights = np.polynomial.legendre.leggauss(80)
    stds = 1.25 + 0.75 * nodes  # Between 0.5 and 2.

    def joint(x, y):
        of_class = [
            weights @ stats.norm.pdf(x[y == c][..., None], scale=stds).prod((0, 1))
            for c in (0, 1)
        ]
        return stats.bernoulli.pmf(y, 0.2).prod() * np.prod(of_class)

    _check_odds(task, examples, joint)
    assert drawn(task, 20_000).query_y.mean() == pytest.approx(0.2, abs=0.015)


def _check_odds(task, examples, joint):
    """The log-odds are those of the joint probabilities with each label."""
    other = task.corruptions["labels_exchanged"](examples)
    for batch_ in (examples, other):
        wanted = []
        for k in range(len(batch_.query_y)):
            x = np.float64([*batch_.context_x[k], batch_.query_x[k]])
            labels = np.asarray(batch_.context_y[k])
            one, zero = (joint(x, np.append(labels, s)) for s in (1, 0))
            wanted.append(np.log(one / zero))
        np.testing.assert_allclose(bayes(task, batch_), wanted, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(batch_.log_odds, wanted, rtol=1e-5, atol=1e-5)


# Published accuracies (attn.md, 4) and an audit's, on 50,000 examples: a standard error
# of .0018.


@pytest.mark.parametrize(
    ("task", "bayes_accuracy", "oracle_accuracy"),
    [
        (ShiftedMean(), 0.788, 0.840),
        (ShiftedMean(nuisance_std=9.0), 0.788, 0.841),
        (ShiftedMean(nuisance_std=9.0, assumed_nuisance_std=3.0), 0.788, 0.841),
        (ShiftedMean(context=64), 0.813, 0.840),
        (Variance(), 0.835, 0.843),
        (ShiftedMean(4, 32, 0.5), 0.829, 0.841),
        (Variance(4, 32), 0.725, None),
    ],
    ids=str,
)
def test_accuracies(task, bayes_accuracy, oracle_accuracy):
    examples = drawn(task, 50_000)
    label = examples.query_y == 1
    accuracy = lambda odds: np.mean((odds > 0) == label)
    assert accuracy(examples.log_odds) == pytest.approx(bayes_accuracy, abs=0.005)
    if oracle_accuracy is not None:
        found = accuracy(examples.log_likelihood_ratio)
        assert found == pytest.approx(oracle_accuracy, abs=0.005)


# Baselines


def test_plug_in_discriminants_are_near_the_bayes_predictors():
    """The published r of the first with Bayes is .992 (attn.md, 4)."""
    for task, plug_in, published in (
        (ShiftedMean(), baselines.linear_discriminant, 0.992),
        (Variance(), baselines.quadratic_discriminant, None),
    ):
        examples = drawn(task, 5000)
        found = jax.vmap(plug_in)(
            examples.context_x, examples.context_y, examples.query_x
        )
        r = np.corrcoef(found, examples.log_odds)[0, 1]
        assert r > 0.97
        if published is not None:
            assert r == pytest.approx(published, abs=0.0015)


def test_correlations_of_the_bayes_predictor_with_the_true_ratio():
    """Published r and ranks' ρ of the exact Bayes predictors (attn.md, 4)."""
    for task, r, rho in ((ShiftedMean(), 0.884, 0.883), (Variance(), 0.974, 0.992)):
        examples = drawn(task, 20_000)
        pair = np.float64(examples.log_odds), np.float64(examples.log_likelihood_ratio)
        assert np.corrcoef(*pair)[0, 1] == pytest.approx(r, abs=0.005)
        assert stats.spearmanr(*pair).statistic == pytest.approx(rho, abs=0.005)


def test_discriminants_are_the_formulas():
    rng = np.random.default_rng(0)
    x, query = rng.normal(size=(7, 3)), rng.normal(size=3)
    y = np.array([0, 1, 1, 0, 1, 0, 0])
    one, zero = stats.multivariate_normal, stats.multivariate_normal
    m0, m1 = x[y == 0].mean(0), x[y == 1].mean(0)
    linear = one.logpdf(query, m1) - zero.logpdf(query, m0)
    found = baselines.linear_discriminant(jnp.array(x), jnp.array(y), jnp.array(query))
    assert float(found) == pytest.approx(linear, rel=1e-5)
    v0, v1 = (x[y == 0] ** 2).mean(), (x[y == 1] ** 2).mean()
    quadratic = one.logpdf(query, cov=v1 * np.eye(3)) - zero.logpdf(
        query, cov=v0 * np.eye(3)
    )
    found = baselines.quadratic_discriminant(
        jnp.array(x), jnp.array(y), jnp.array(query)
    )
    assert float(found) == pytest.approx(quadratic, rel=1e-5)
    weights = special.softmax(0.7 * x @ query)
    found = baselines.kernel_regression(
        jnp.array(x), jnp.array(y), jnp.array(query), scale=0.7
    )
    assert float(found) == pytest.approx(weights @ (2 * y - 1), rel=1e-5)


def of_labels(name):
    """A baseline or a model as a function of four labels."""
    x, query = jax.random.normal(jax.random.key(0), (4, 3)), jnp.ones(3)
    if name in ENCODERS:
        sizes = {"num_layers": 1, "d_model": 8, "num_heads": 2}
        interface = ShiftedMean(3, 4).interface
        model = EncoderConfig(**sizes, tokens=ENCODERS[name]).build(
            interface, key=jax.random.key(1)
        )
        return lambda y: model(x, y, query)
    if name == "weighted_labels":
        return lambda y: baselines.weighted_labels(x @ query, y)
    more = {"scale": 0.7} if name == "kernel_regression" else {}
    return lambda y: getattr(baselines, name)(x, y, query, **more)


ENCODERS = {"summed": SummedTokens(), "interleaved": InterleavedTokens()}
PREDICTORS = (
    *("linear_discriminant", "quadratic_discriminant", "kernel_regression"),
    *("weighted_labels", *ENCODERS),
)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", PREDICTORS)
def test_labels_are_zero_or_one(name):
    of, labels = of_labels(name), jnp.array([0, 1, 1, 0])
    for same in (labels == 1, labels.astype(float)):
        np.testing.assert_allclose(of(same), of(labels), rtol=1e-6)
    for wrong, got in ((2 * labels - 1, "-1"), (2 * labels, "2"), (labels / 2, "0.5")):
        with pytest.raises(ValueError, match=f"context_y must be 0 or 1, got {got}"):
            of(wrong)
    # While JAX traces, only the shape is known.
    for either in (of, jax.jit(of)):
        for wrong in (labels[:1], labels[:, None]):
            with pytest.raises(
                ValueError, match=r"context_y must be an array \[pair=4"
            ):
                either(wrong)


@pytest.mark.parametrize(
    "predictor", [baselines.linear_discriminant, baselines.quadratic_discriminant]
)
def test_a_class_without_points_tells_nothing(predictor):
    x, query = jnp.ones((3, 2)), jnp.array([5.0, 1.0])
    for label in (0, 1):
        assert float(predictor(x, jnp.full(3, label), query)) == 0
        prior = predictor(x, jnp.full(3, label), query, label_prior=0.8)
        assert float(prior) == pytest.approx(np.log(4))


@pytest.mark.parametrize(
    "predictor", [baselines.linear_discriminant, baselines.quadratic_discriminant]
)
def test_discriminants_add_the_log_odds_of_the_prior(predictor):
    examples = drawn(ShiftedMean(3, 8), 4)
    points = examples.context_x, examples.context_y, examples.query_x
    even, other = (
        jax.vmap(lambda *xs, p=p: predictor(*xs, label_prior=p))(*points)
        for p in (0.5, 0.1)
    )
    np.testing.assert_allclose(other - even, -np.log(9), rtol=1e-4)


# The tasks


def test_changes_of_the_context():
    plain = drawn(ShiftedMean(4, 8), 400)
    changed = {
        kind: drawn(ShiftedMean(4, 8, context_change=kind), 400)
        for kind in (NoisyLabels(0.25), ShuffledLabels(), ShuffledPairs())
    }
    for kind, examples in changed.items():
        # Only the context changes, and the Bayes predictor is of the true one.
        for field in ("query_x", "query_y", "log_odds", "log_likelihood_ratio"):
            np.testing.assert_array_equal(
                getattr(examples, field), getattr(plain, field), err_msg=str(kind)
            )
        assert (examples.context_y != plain.context_y).any()
    noisy, labels, pairs = changed.values()
    assert np.mean(noisy.context_y != plain.context_y) == pytest.approx(0.25, abs=0.03)
    np.testing.assert_array_equal(noisy.context_x, plain.context_x)
    np.testing.assert_array_equal(labels.context_x, plain.context_x)
    np.testing.assert_array_equal(labels.context_y.sum(1), plain.context_y.sum(1))
    # Another order in each example, and labels stay with their points.
    for k in range(400):
        before, after = (
            {(*map(float, row),) for row in np.c_[e.context_x[k], e.context_y[k]]}
            for e in (plain, pairs)
        )
        assert before == after
    moved = (pairs.context_x != plain.context_x).any(-1)
    assert len(np.unique(moved, axis=0)) > 10


def test_metrics_of_the_bayes_predictor_and_of_others():
    task = ShiftedMean(4, 16, 0.5)
    examples = drawn(task, 4000)
    rows = jax.vmap(task.metrics)(examples.log_odds, examples)
    found = summarise(jax.tree.map(np.asarray, rows), task.summaries)
    assert found["regret"] == pytest.approx(0, abs=1e-6)
    for name in ("bayes_correlation", "bayes_rank_correlation"):
        assert found[name] == pytest.approx(1)
    assert found["llr_correlation"] < 0.99
    # Half as confident, or without any opinion.
    for factor, order in ((0.5, True), (0.0, False)):
        logit = factor * examples.log_odds
        rows = jax.tree.map(np.asarray, jax.vmap(task.metrics)(logit, examples))
        found = summarise(rows, task.summaries)
        assert found["regret"] > 0.01
        if order:
            assert found["bayes_rank_correlation"] == pytest.approx(1)
        else:
            assert found["loss"] == pytest.approx(np.log(2))
            assert found["auroc"] == pytest.approx(0.5)


def test_without_labels_a_model_is_at_chance_by_symmetry():
    """An example and the one with exchanged labels are equally likely.

    The model sees the same in both, so it is right in exactly one of them.
    """
    task = ShiftedMean(4, 8, 0.5)
    config = EncoderConfig(num_layers=1, d_model=8, num_heads=2, tokens=PointTokens())
    model = config.build(task.interface, key=jax.random.key(1))
    examples = drawn(task, 50)
    other = task.corruptions["labels_exchanged"](examples)
    logits, same = (jax.vmap(model)(*task.inputs(e)) for e in (examples, other))
    np.testing.assert_array_equal(logits, same)
    right = [jax.vmap(task.metrics)(logits, e)["accuracy"] for e in (examples, other)]
    np.testing.assert_array_equal(right[0] + right[1], 1)


def test_rank_correlation_is_spearmans():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 9, 50).astype(float)
    b = a**3 + rng.normal(size=50) * 100
    wanted = stats.spearmanr(a, b).statistic
    assert RankCorrelation("a", "b")({"a": a, "b": b}) == pytest.approx(wanted)
    assert np.isnan(RankCorrelation("a", "b")({"a": a, "b": np.ones(50)}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ShiftedMean(dim=0), "dim must be a positive"),
        (lambda: ShiftedMean(nuisance_std=-1.0), "nuisance_std must be at least 0"),
        (lambda: ShiftedMean(mean_norm=0.0), "mean_norm must be positive and finite"),
        (
            lambda: ShiftedMean(label_prior=1.0),
            "label_prior must be above 0 and below 1",
        ),
        (lambda: Variance(label_prior=2.0), "must be above 0 and below 1, got 2"),
        (lambda: Variance(context=0), "context must be a positive"),
        (lambda: Variance(least_std=0.0), "least_std and largest_std must be positive"),
        (
            lambda: Variance(least_std=3.0, largest_std=1.0),
            "in this order, got 3.0 and",
        ),
        (lambda: NoisyLabels(1.5), r"probability must be in \[0, 1\], got 1.5"),
        (
            lambda: dataclasses.replace(
                drawn(Variance(2, 3), 1), context_y=np.array([[0, 2, 1]])
            ).check_batch(),
            "context_y must be 0 or 1, got 2",
        ),
        (lambda: shifted_mean(3), "steps must be at least 4 for a one-cycle rate"),
    ],
)
def test_impossible_settings_are_refused(make, message, unchecked):
    with pytest.raises(ValueError, match=message):
        make()
