"""Algorithms on a context, against NumPy, closed forms and the reference data."""

import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import opto
from icl.baselines import curves
from icl.baselines.curves import best_rate, curve, fitted
from icl.baselines.descent import (
    best_preconditioner,
    GDPlusPlus,
    GradientDescent,
    Preconditioned,
    spectral_bound,
    SteepestDescent,
)
from icl.baselines.gradient_descent import one_step
from icl.baselines.least_squares import bayes, NewtonIteration, Ridge
from icl.batches import batch
from icl.models.constructions import descent_block, descent_model
from icl.tasks.discrimination import ShiftedMean
from icl.tasks.regression import GaussianInputs, LinearRegression


REFERENCE = pathlib.Path(__file__).parents[2] / "shared/data/gd_upstream"
needs_reference = pytest.mark.skipif(
    not REFERENCE.exists(), reason="needs the reference data"
)
TASK = LinearRegression(dim=4, context=7, noise=0.3)


@pytest.fixture(scope="module")
def examples():
    return batch(TASK, 20, key=jax.random.key(0))


def each(examples):
    """Context and query of each example, in float64."""
    for x, y in zip(np.float64(examples.x), np.float64(examples.y), strict=True):
        yield x[:-1], y[:-1], x[-1]


def predictions(of, examples):
    """After each step, for the only query of each example."""
    return curves.predictions(of, examples)[..., 0]


def test_gradient_descent(examples):
    rates = [2.0, 0.5, 1.0]
    found = predictions(GradientDescent(rates), examples)
    wanted = []
    for x, y, query in each(examples):
        w, row = np.zeros(4), [0.0]
        for rate in rates:
            w = w - rate / 7 * sum((w @ a - b) * a for a, b in zip(x, y, strict=True))
            row.append(w @ query)
        wanted.append(row)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


@needs_reference
@pytest.mark.parametrize("size", ["d4_n6", "d10_n10"])
def test_gradient_descent_of_the_reference(size):
    with np.load(REFERENCE / f"gd_baseline_{size}.npz") as data:
        x, y, query = data["x"], data["y"][..., 0], data["x_query"]
        for e, rate in enumerate(data["etas"]):
            last = int(data["steps"].max())
            of = GradientDescent(np.full(last, rate))
            found = np.asarray(jax.vmap(of)(x, y, query))[:, data["steps"]]
            wanted = data["prediction_zero"][e].T
            scale = max(1.0, np.abs(wanted).max())
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * scale)


def test_gd_plus_plus_is_the_constructed_model(examples):
    """The model is tested against NumPy in test_gd_upstream.py."""
    pairs = [(2.0, 0.1), (1.0, 0.05)]
    blocks = [descent_block(4, 7, eta, curvature=gamma) for eta, gamma in pairs]
    model = descent_model(blocks, 2)
    found = predictions(GDPlusPlus(*zip(*pairs, strict=True)), examples)
    wanted = predictions(model, examples)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        wanted[:, -1], jax.vmap(model)(examples.x, examples.y), rtol=1e-6, atol=1e-7
    )


def test_a_preconditioner_is_a_change_of_coordinates(examples):
    root = np.diag([1.0, 0.8, 1.2, 0.5]) + 0.1 * np.ones((4, 4))
    found = predictions(Preconditioned([1.0, 0.7], root @ root.T), examples)
    turned = jnp.asarray(np.asarray(examples.x) @ root, jnp.float32)
    plain = jax.vmap(lambda x, y: GradientDescent([1.0, 0.7])(x[:-1], y[:-1], x[-1]))
    np.testing.assert_allclose(found, plain(turned, examples.y), rtol=1e-4, atol=1e-5)


def test_line_search_is_the_best_rate_of_each_step(examples):
    found = predictions(SteepestDescent(3), examples)
    wanted = []
    for x, y, query in each(examples):
        w, row = np.zeros(4), [0.0]
        for _ in range(3):
            slope = (x @ w - y) @ x
            # The loss is a parabola in the rate: its minimum from three points.
            loss = [np.sum((x @ (w - r * slope) - y) ** 2) for r in (0, 1, 2)]
            curvature = (loss[2] - 2 * loss[1] + loss[0]) / 2
            w = w + (loss[1] - loss[0] - curvature) / (2 * curvature) * slope
            row.append(w @ query)
        wanted.append(row)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("penalty", [0.0, 0.09, 3.0])
@pytest.mark.parametrize("context", [3, 7])
def test_ridge_regression(penalty, context):
    task = LinearRegression(dim=4, context=context, noise=0.3)
    examples = batch(task, 20, key=jax.random.key(1))
    found = predictions(Ridge(penalty), examples)
    wanted = [
        np.linalg.pinv(x.T @ x + penalty * np.eye(4), rcond=1e-9) @ (x.T @ y) @ query
        for x, y, query in each(examples)
    ]
    np.testing.assert_allclose(found[:, 1], wanted, rtol=1e-3, atol=1e-4)


def test_gradient_descent_falls_below_the_spectral_bound(examples):
    x, y, _ = next(iter(each(examples)))
    bound = float(spectral_bound(jnp.asarray(x, jnp.float32)))
    wanted = 2 / np.linalg.eigvalsh(x.T @ x / len(x)).max()
    np.testing.assert_allclose(bound, wanted, rtol=1e-5)

    def losses(rate):
        w = np.zeros(4)
        for _ in range(300):
            yield np.sum((x @ w - y) ** 2)
            w = w - rate / len(x) * (x @ w - y) @ x

    assert np.all(np.diff([*losses(0.99 * bound)]) <= 1e-12)
    assert [*losses(1.01 * bound)][-1] > 10 * np.sum(y**2)


def test_the_best_single_step_is_the_closed_form():
    task = LinearRegression()
    best = fitted(
        GradientDescent([3.0]), task, key=jax.random.key(0), steps=150, size=500
    )
    rate, loss = one_step(task)
    assert float(best.rates[0]) == pytest.approx(rate, rel=0.02)
    examples = batch(task, 20_000, key=jax.random.key(1))
    found = curve(best, examples)
    each = 0.5 * (predictions(best, examples)[:, 1] - examples.y[:, -1]) ** 2
    error = float(each.std()) / np.sqrt(20_000)
    assert float(found[1]) == pytest.approx(loss, abs=4 * error)
    # The zero predictor's loss is d s² / 2 with s² = 1/12.
    assert float(found[0]) == pytest.approx(10 / 24, rel=0.03)


# Numbers of `specs/gd.md`, computed independently for ±1/2 and d = N = 10. Theirs have
# a sampling error of .002, and ours is less than half as large.
PUBLISHED = {
    # These rates are what `fitted` finds.
    "1 step": (lambda: GradientDescent([6.06]), 0.2062),
    "2 per-step": (lambda: GradientDescent([4.0, 11.7]), 0.1421),
    "3 per-step": (lambda: GradientDescent([3.36, 5.65, 19.1]), 0.1110),
    "GD++ 2": (lambda: GDPlusPlus([13.4], [0.175], 2), 0.1113),
    "GD++ 3": (lambda: GDPlusPlus([19.7], [0.191], 3), 0.0784),
    "GD++ 5": (lambda: GDPlusPlus([30.2], [0.199], 5), 0.0521),
}
SAME_RATE = {1: 0.2067, 2: 0.1575, 3: 0.1337, 5: 0.1095, 10: 0.0842}  # By steps.


@pytest.fixture(scope="module")
def many():
    return batch(LinearRegression(), 10_000, key=jax.random.key(4))


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_losses(name, many):
    make, wanted = PUBLISHED[name]
    assert float(curve(make(), many)[-1]) == pytest.approx(wanted, abs=0.0035)


@pytest.mark.parametrize("steps", SAME_RATE)
def test_the_published_losses_with_the_best_rate(steps, many):
    few = jax.tree.map(lambda x: x[:3000], many)
    rate = float(jax.jit(best_rate, static_argnums=1)(few, steps))
    found = curve(GradientDescent([rate], steps), many)
    assert float(found[-1]) == pytest.approx(SAME_RATE[steps], abs=0.0035)
    last = lambda rate: float(curve(GradientDescent([rate], steps), few)[-1])
    assert last(0.9 * rate) > last(rate) < last(1.1 * rate)


def test_gd_plus_plus_learns_the_published_curvature():
    start = GDPlusPlus([10.0], [0.13], 2)
    few = {"steps": 60, "size": 500, "rate": 0.05}
    best = fitted(start, LinearRegression(), key=jax.random.key(0), **few)
    assert float(best.curvatures[0]) == pytest.approx(0.175, rel=0.05)
    assert float(best.rates[0]) == pytest.approx(13.4, rel=0.05)


def test_rates_are_gone_through_again(examples):
    pairs = (
        (GradientDescent([1.0, 0.5], 2), GradientDescent([1.0, 0.5, 1.0, 0.5])),
        (GDPlusPlus([1.0], [0.1], 3), GDPlusPlus([1.0] * 3, [0.1] * 3)),
        (Preconditioned([1.0], np.eye(4), 3), GradientDescent([1.0], 3)),
    )
    for short, long in pairs:
        ours, wanted = (predictions(of, examples) for of in (short, long))
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)


def test_newtons_iteration(examples):
    found = predictions(NewtonIteration(30), examples)
    wanted = []
    for x, y, query in each(examples):
        s = x.T @ x / len(x)
        inverse, row = s / np.linalg.eigvalsh(s).max() ** 2, [0.0]
        for _ in range(4):
            row.append((x.T @ y / len(x)) @ inverse @ query)
            inverse = 2 * inverse - inverse @ s @ inverse
        wanted.append(row)
    np.testing.assert_allclose(found[:, :5], wanted, rtol=1e-3, atol=1e-5)
    exact = [
        np.linalg.lstsq(x, y, rcond=None)[0] @ query for x, y, query in each(examples)
    ]
    np.testing.assert_allclose(found[:, -1], exact, rtol=0.02, atol=0.02)


def test_the_best_preconditioner():
    """Moving any entry of the matrix makes the loss of many samples larger."""
    rng = np.random.default_rng(0)
    root = np.array([[1.0, 0.0, 0.0], [0.3, 0.7, 0.0], [0.0, 0.2, 0.4]])
    x = rng.normal(size=(100_000, 6, 3)) @ root.T
    w = rng.normal(size=(100_000, 3))
    y = np.einsum("tnd,td->tn", x, w) + 0.5 * rng.normal(size=(100_000, 6))
    slope = np.einsum("tn,tnd->td", y, x) / 6

    def loss(matrix):
        error = slope @ matrix - w  # The query is x ~ N(0, root root^T), apart.
        return np.mean(np.sum((error @ root) ** 2, 1))

    best = best_preconditioner(root @ root.T, 6, noise=0.5)
    least = np.linalg.lstsq(slope, w, rcond=None)[0]
    np.testing.assert_allclose(best, least, atol=0.03)
    assert loss(best) < loss(best + 0.05 * np.eye(3))
    assert loss(best) < loss(best - 0.05 * np.eye(3))


@pytest.mark.parametrize(
    ("context", "known"), [(8, 0.00860), (10, 0.00561), (20, 0.00337)]
)
def test_the_bayes_predictor_with_many_pairs(context, known):
    """An audit's numbers; least squares has about $\\sigma^2 (1 + d / (N - d - 1))$."""
    task = LinearRegression(5, context, GaussianInputs(), noise=0.05)
    examples = batch(task, 50_000, key=jax.random.key(2))
    errors = predictions(bayes(task), examples)[:, 1] - examples.y[:, -1]
    # The value of our queries has no noise, so it is added here.
    found = float(jnp.mean(errors**2)) + 0.05**2
    assert found == pytest.approx(known, rel=0.025)


def ones(dim):
    return jnp.ones((4, dim)), jnp.ones(4), jnp.ones(dim)


def fit(of, task=TASK, **settings):
    return fitted(
        of, task, key=jax.random.key(0), **{"steps": 1, "size": 2, **settings}
    )


MISUSES = {
    "y must be an array [pair=4], got shape [4, 1]": lambda: GradientDescent([0.1])(
        jnp.ones((4, 3)), jnp.ones((4, 1)), jnp.ones(3)
    ),
    "penalty must be at least 0 and finite, got -1": lambda: Ridge(-1.0),
    "rates must be a number for each step, got": lambda: GradientDescent(0.5),
    "of the same steps, got 2 and 1": lambda: GDPlusPlus([1.0, 2.0], [0.1]),
    "matrix must be an array [dim, dim], got shape [3, 4]": lambda: Preconditioned(
        [0.1], np.ones((3, 4))
    ),
    "matrix must be an array [dim=3, dim=3], got shape [1, 1]": lambda: Preconditioned(
        [0.1], np.eye(1)
    )(*ones(3)),
    "context must be a positive integer, got 0": lambda: best_preconditioner(
        np.eye(3), 0
    ),
    "covariance must be an array [dim, dim], got": lambda: best_preconditioner(
        np.ones((3, 1)), 2
    ),
    "noise must be at least 0 and finite, got nan": lambda: best_preconditioner(
        np.eye(3), 2, np.nan
    ),
    "task must be of type LinearRegression, got ShiftedMean": lambda: bayes(
        ShiftedMean()
    ),
    "rate must be positive and finite, got -1.0": lambda: fit(Ridge(1.0), rate=-1.0),
    "steps must be a positive integer, got 0": lambda: fit(Ridge(1.0), steps=0),
    "each number of GradientDescent must be positive and finite, got 0": lambda: fit(
        GradientDescent([1.0, 0.0])
    ),
    "each number of Preconditioned must be positive and finite, got -": lambda: fit(
        Preconditioned([1.0], -np.ones((4, 4)))
    ),
    "algorithm must have numbers to fit, got SteepestDescent": lambda: fit(
        SteepestDescent(1)
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("message", MISUSES)
def test_misuses_are_refused(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        MISUSES[message]()


def test_an_algorithm_has_no_edits(examples):
    edits = [opto.Zero("blocks.0")]
    for of in (curves.predictions, curve):
        with pytest.raises(
            ValueError, match="GradientDescent has no sites, got .*Zero"
        ):
            of(GradientDescent([1.0]), examples, edits)
