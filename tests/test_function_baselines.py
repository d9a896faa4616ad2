"""Baselines for functions in context, and errors by context length."""

import dataclasses
import functools
import importlib.util
import itertools
import json
import pathlib
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import icl.replaying.by_context as by_context
from icl.baselines.functions import (
    Averaging,
    BoostedTrees,
    GreedyTree,
    Lasso,
    LeastSquares,
    NearestNeighbours,
    TwoLayerNetwork,
)
from icl.compat.limits_of_icl import load_model
from icl.replaying.by_context import draw_prompts, errors_by_context
from icl.summaries import BootstrapInterval, CountedMean
from icl.tasks.functions import Curriculum, InContextFunction, Ramp
from icl.tasks.functions.classes import (
    LinearClassification,
    LinearFunction,
    NoisyLinear,
    SparseLinear,
)
from icl.tasks.functions.shifts import (
    OppositeQuery,
    OrthantContext,
    OrthogonalQuery,
    OverlappingQuery,
    ScaledInputs,
    ScaledQuery,
    SkewedInputs,
    SubspaceInputs,
)
from icl.tasks.functions.task import Prompt


REFERENCE = pathlib.Path(__file__).parents[2] / "shared/data/limits_of_icl"


needs_sklearn = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="needs scikit-learn"
)
TASK = InContextFunction(dim=5, points=11)
LEARNERS = {
    "least_squares": LeastSquares(),
    "ridge": LeastSquares(0.7),
    "averaging": Averaging(),
    "nearest": NearestNeighbours(3),
    "network": TwoLayerNetwork(7, steps=3),
}


@functools.cache
def prompts(size=400, seed=0):
    return draw_prompts({"plain": TASK}, size, key=jax.random.key(seed))


@functools.cache
def drawn(points, dim, size, seed=0):
    """Standard normal points and weights as float64 arrays."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(size, points, dim)), rng.normal(size=(size, dim))


# What each learner predicts, in NumPy float64 for one context.


def _ridge(x, y, query, penalty):
    if not penalty:
        return np.linalg.lstsq(x, y, rcond=None)[0] @ query
    return np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y) @ query


def _nearest(x, y, query):
    near = np.argsort(np.linalg.norm(x - query, axis=1))[:3]
    return y[near].mean()


ORACLES = {
    "least_squares": lambda x, y, query: _ridge(x, y, query, 0),
    "ridge": lambda x, y, query: _ridge(x, y, query, 0.7),
    "averaging": lambda x, y, query: np.mean(y[:, None] * x, 0) @ query,
    "nearest": _nearest,
}


@pytest.mark.parametrize("name", ORACLES)
def test_learners_equal_numpy(name):
    xs, weights = drawn(11, 5, 6)
    ys = np.einsum("spd,sd->sp", xs, weights) + 0.3 * xs[..., 0] ** 2
    one = jax.jit(jax.vmap(LEARNERS[name]))
    found = np.asarray(one(jnp.asarray(xs, jnp.float32), jnp.asarray(ys, jnp.float32)))
    assert np.all(found[:, 0] == 0)
    for k, at in np.ndindex(6, 11):
        if at:
            wanted = ORACLES[name](xs[k, :at], ys[k, :at], xs[k, at])
            # With as many pairs as components, least squares is badly conditioned.
            np.testing.assert_allclose(
                found[k, at], wanted, rtol=2e-2 if at == 5 else 1e-3, atol=1e-3
            )


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_read_only_what_comes_before(name):
    xs, weights = (jnp.asarray(x[0], jnp.float32) for x in drawn(11, 5, 6))
    ys = xs @ weights
    call = jax.jit(LEARNERS[name])
    before = call(xs, ys)
    after = call(xs.at[7:].add(1.0), ys.at[6:].add(1.0))
    np.testing.assert_allclose(after[:7], before[:7], rtol=1e-5, atol=1e-6)
    assert before[0] == 0
    assert not np.allclose(after[7:], before[7:], atol=1e-3)


def _lasso(x, y, penalty):
    """The minimum: the signs whose solution has those signs, and no steeper slope."""
    count, dim = x.shape
    for signs in map(np.array, itertools.product((0, 1, -1), repeat=dim)):
        used = signs != 0
        weights = np.zeros(dim)
        if used.sum() > count:
            continue
        target = x.T[used] @ y / count - penalty * signs[used]
        weights[used] = np.linalg.solve(x.T[used] @ x[:, used] / count, target)
        slope = np.abs(x.T @ (y - x @ weights) / count)
        if (weights[used] * signs[used] > 0).all() and (
            slope[~used] <= penalty * (1 + 1e-9)
        ).all():
            return weights
    raise AssertionError


@needs_sklearn
@pytest.mark.parametrize("penalty", [0.3, 0.01, 1e-3])
def test_lasso_finds_the_minimum(penalty):
    """Also with fewer pairs than components, where coordinate descent is slow."""
    xs, weights = drawn(7, 5, 20, seed=1)
    ys = np.einsum("spd,sd->sp", xs, weights)
    xs, ys = (np.asarray(x, np.float32) for x in (xs, ys))
    found = jax.jit(jax.vmap(Lasso(penalty)))(xs, ys)
    assert np.all(found[:, 0] == 0)
    for at in range(1, 7):
        for k in range(20):
            x, y = xs[k].astype(float), ys[k].astype(float)
            wanted = _lasso(x[:at], y[:at], penalty) @ x[at]
            np.testing.assert_allclose(found[k, at], wanted, rtol=1e-3, atol=1e-3)


def test_the_network_is_trained_as_in_numpy():
    """Adam on the mean squared error of one context, in float64."""
    learner = TwoLayerNetwork(4, rate=0.05, steps=3)
    xs, weights = (x[0] for x in drawn(6, 3, 2, seed=5))
    ys = xs @ weights
    first, second = jax.random.split(jax.random.key(0))
    layers = (
        eqx.nn.Linear(3, 4, key=first),
        eqx.nn.Linear(4, "scalar", key=second),
    )
    arrays = [np.asarray(x, np.float64) for x in jax.tree.leaves(layers)]
    moments = [np.zeros_like(x) for x in arrays], [np.zeros_like(x) for x in arrays]
    x, y = xs[:5], ys[:5]

    def answer(x):
        W, b, v, c = arrays
        return np.maximum(x @ W.T + b, 0) @ v[0] + c

    for t in range(1, 4):
        W, b, v, c = arrays
        hidden = x @ W.T + b
        on = np.maximum(hidden, 0)
        left = 2 * (on @ v[0] + c - y) / 5
        back = left[:, None] * v * (hidden > 0)
        slopes = [
            back.T @ x,
            back.sum(0),
            (left @ on)[None],
            left.sum()[None] * np.ones_like(c),
        ]
        for k, slope in enumerate(slopes):
            moments[0][k] = 0.9 * moments[0][k] + 0.1 * slope
            moments[1][k] = 0.999 * moments[1][k] + 0.001 * slope**2
            mean, square = moments[0][k] / (1 - 0.9**t), moments[1][k] / (1 - 0.999**t)
            arrays[k] = arrays[k] - 0.05 * mean / (np.sqrt(square) + 1e-8)
    found = learner(jnp.asarray(xs, jnp.float32), jnp.asarray(ys, jnp.float32))[5]
    np.testing.assert_allclose(found, answer(xs[5:]).item(), rtol=1e-4)


@needs_sklearn
def test_trees():
    rng = np.random.default_rng(0)
    xs = jnp.asarray(rng.normal(size=(2, 9, 3)), jnp.float32)
    ys = jnp.where(xs[..., 1] > 0, 2.0, -1.0)
    tree = jax.jit(jax.vmap(GreedyTree()))(xs, ys)
    assert np.all(tree[:, 0] == 0)
    np.testing.assert_allclose(tree[:, 1], ys[:, 0])  # One pair is one leaf.
    # The last one has both sides in its context, and one split tells them apart.
    assert {*np.asarray(tree[:, 2:]).ravel()} <= {2.0, -1.0}
    assert np.mean(tree[:, -1] == ys[:, -1]) >= 0.5
    boosted = BoostedTrees(rounds=1, rate=1.0, depth=1)(xs[0], ys[0])
    np.testing.assert_allclose(boosted, GreedyTree(1)(xs[0], ys[0]), rtol=1e-5)


def test_trees_without_sklearn(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn", None)
    with pytest.raises(ValueError, match="GreedyTree needs scikit-learn: make EXTRA"):
        GreedyTree()


# Closed forms


def within(found, wanted, rows):
    """Whether means are what they should be, up to five standard errors."""
    error = rows.std(0) / np.sqrt(len(rows))
    assert np.all(np.abs(found - wanted) <= 5 * error + 1e-4), (found, wanted, error)


def test_least_squares_and_averaging_in_closed_form():
    k = np.arange(11)
    curves = errors_by_context(LeastSquares(), prompts(1500))
    within(curves.of("plain"), np.maximum(1 - k / 5, 0), curves.rows[0])
    curves = errors_by_context(Averaging(), prompts(1500))
    found, rows = curves.of("plain")[1:], curves.rows[0][:, 1:]
    within(found, 6 / k[1:], rows)


def last_answers(learner, ys, xs):
    """The predictions for the last point after all other pairs, for each prompt."""
    known = jnp.ones(xs.shape[1] - 1, bool)
    xs, ys = (jnp.asarray(x, jnp.float32) for x in (xs, ys))
    one = lambda x, y: learner.answer(x[:-1], y[:-1], known, x[-1])
    return np.asarray(jax.jit(jax.vmap(one))(xs, ys), np.float64)


def test_published_numbers_after_40_pairs():
    xs, weights = drawn(41, 20, 4000)
    exact = np.einsum("spd,sd->sp", xs, weights)
    noisy = exact + np.random.default_rng(1).normal(size=exact.shape)

    def error(learner, ys):
        rows = (last_answers(learner, ys, xs) - exact[:, -1]) ** 2 / 20
        return rows.mean(), rows.std() / np.sqrt(len(rows))

    found, spread = error(NearestNeighbours(3), exact)
    assert abs(found - 0.70) < 0.01 + 3 * spread
    # With noise of variance 1, after k pairs: d / (k - d - 1) and the trace of
    # (X^T X + 1)^-1, divided by d. The 40th point, after 39 pairs, has .055 and .050.
    products = np.einsum("spd,spe->sde", xs[:, :39], xs[:, :39])
    wanted = (1 / (np.linalg.eigvalsh(products) + 1)).mean()
    assert abs(wanted - 0.0497) < 0.0005
    xs, noisy, exact = xs[:, 1:], noisy[:, 1:], exact[:, 1:]
    found, spread = error(LeastSquares(), noisy)
    assert abs(found - 1 / 18) < 4 * spread
    found, spread = error(LeastSquares(1.0), noisy)
    assert abs(found - wanted) < 4 * spread


# Errors by context length


SETS = {
    "plain": TASK,
    "larger": dataclasses.replace(TASK, shift=ScaledInputs(3.0)),
    "skewed": dataclasses.replace(TASK, shift=SkewedInputs(1.0)),
    "larger_query": dataclasses.replace(TASK, shift=ScaledQuery(2.0)),
    "opposite": dataclasses.replace(TASK, shift=OppositeQuery()),
    "orthogonal": dataclasses.replace(TASK, shift=OrthogonalQuery()),
    "overlapping": dataclasses.replace(TASK, shift=OverlappingQuery()),
    "sparse": dataclasses.replace(TASK, function=SparseLinear(2)),
    "scaled_values": dataclasses.replace(TASK, function=LinearFunction(3.0)),
    "noisy": dataclasses.replace(TASK, function=NoisyLinear(1.0)),
}


@functools.cache
def sets():
    return draw_prompts(SETS, 1000, key=jax.random.key(1))


def test_errors_of_least_squares_under_shifts():
    curves = errors_by_context(LeastSquares(), sets())
    assert curves.rows.shape == (10, 1000, 11)
    k = np.arange(11)
    exact = np.maximum(1 - k / 5, 0)
    by_name = dict(zip(curves.names, curves.rows, strict=True))
    for name in ("plain", "larger", "larger_query", "sparse", "scaled_values"):
        within(curves.of(name), exact, by_name[name])
    # Orthogonal to the context: the context tells nothing. There is none from d on.
    found = curves.of("orthogonal")
    within(found[1:5], np.ones(4), by_name["orthogonal"][:, 1:5])
    assert np.all(np.isnan(found[[0, *range(5, 11)]]))
    # A point of the context is known.
    assert np.all(curves.of("overlapping")[1:] < 1e-4)
    assert np.isnan(curves.of("overlapping")[0])
    # Signs do not matter to a method that is blind to reflections of single points.
    within(curves.of("opposite")[5:], np.zeros(6), by_name["opposite"][:, 5:])
    # The mean square of noisy values is d + 1 before there is any pair.
    within(curves.of("noisy")[0], 6 / 5, by_name["noisy"][:, 0])
    interval = curves.interval()
    shown = ~np.isnan(curves.mean)
    assert np.all(interval.low[shown] <= curves.mean[shown] + 1e-12)
    assert np.all(interval.high[shown] >= curves.mean[shown] - 1e-12)


def test_each_position_is_the_pass_with_its_query():
    """Against one prompt at a time, put together in NumPy."""
    places = (0, 3, -1)
    curves = errors_by_context(Averaging(), sets(), positions=places)
    whole = errors_by_context(Averaging(), sets())
    np.testing.assert_array_equal(curves.positions, [0, 3, 10])
    np.testing.assert_allclose(
        curves.rows, whole.rows[:, :, [0, 3, 10]], rtol=1e-5, atol=1e-7
    )
    name = "opposite"
    at = [*SETS].index(name)
    drawn = jax.tree.map(lambda x: np.asarray(x[at], np.float64), sets().prompts)
    for k in range(3):
        x, y = drawn.context_x[k, :10], drawn.context_y[k, :10]
        guess = np.mean(y[:, None] * x, 0) @ drawn.query_x[k, 10]
        wanted = (guess - drawn.query_y[k, 10]) ** 2 / 5
        np.testing.assert_allclose(curves.rows[at, k, 2], wanted, rtol=1e-3)


# The tasks whose positions are those of the public codes' shifts.
PUBLISHED = {
    "standard": None,
    "scaled_query": ScaledQuery(2.1),
    "random_quadrants": OrthantContext(5),
    "opposite_quadrants": OppositeQuery(2),
    "overlapping_train_test": OverlappingQuery(),
    "orthogonal_train_test": OrthogonalQuery(2),
    "subspace": SubspaceInputs(1),
    "skewed": SkewedInputs(1.3),
    "dtsip/random_quadrants": OrthantContext(),
    "dtsip/opposite_quadrants": OppositeQuery(),
    "dtsip/overlapping_train_test": OverlappingQuery(),
    "dtsip/orthogonal_train_test": OrthogonalQuery(),
    "dtsip/standard": None,
}


@pytest.mark.skipif(not REFERENCE.exists(), reason="needs the reference data")
@pytest.mark.parametrize("family", ["softmax_causal", "gpt2"])
def test_errors_of_the_public_codes(family):
    """Their models on their prompts; the second code has errors at every position."""
    data = np.load(REFERENCE / "shifts.npz")
    kinds = json.loads((REFERENCE / "config.json").read_text())["kinds"]
    arrays = np.load(REFERENCE / f"{family}.npz")
    named = {k: x for k, x in arrays.items() if k[0] == "_" or "attn.omega" in k}
    model = load_model(named, kinds[family]["constructor"])
    w = data["w"][..., 0]
    own = [
        name for name in PUBLISHED if name.startswith("dtsip/") == (family == "gpt2")
    ]
    tasks, prompts = {}, []
    for name in own:
        tasks[name] = InContextFunction(dim=3, points=8, shift=PUBLISHED[name])
        context = data[f"{name}/context"]
        both = context, data.get(f"{name}/query", context)
        columns = [(x, np.einsum("spd,sd->sp", x, w)) for x in both]
        prompts.append(Prompt(*(jnp.asarray(x) for pair in columns for x in pair)))
    sets = by_context.PromptSets(tasks, jax.tree.map(lambda *x: jnp.stack(x), *prompts))
    places = [-1] if family == "softmax_causal" else None
    found = errors_by_context(model, sets, positions=places)
    for name, rows in zip(own, found.rows, strict=True):
        wanted = data[f"{name}/error"]
        # Positions without such a query; there, the second code has zero vectors.
        there = ~np.isnan(rows)
        if "orthogonal" in name and family == "gpt2":
            assert there.all(0).tolist() == [0, 1, 1, *[0] * 5]
        elif "overlapping" in name:
            assert there[:, -1].all()
        else:
            assert there.all()
        mean_square = tasks[name].mean_square
        np.testing.assert_allclose(
            (rows * mean_square)[there], wanted[there], rtol=1e-4, atol=1e-5
        )


def test_all_shifts_of_a_predictor_are_one_program(monkeypatch):
    traced = []

    class Counting(eqx.Module):
        weight: jax.Array

        def __call__(self, xs, ys, *, tap=None):
            traced.append(xs.shape)
            return self.weight * xs[:, 0]

    few = draw_prompts(
        {name: SETS[name] for name in ("plain", "larger", "opposite")},
        2000,
        key=jax.random.key(2),
    )
    for weight in (1.0, 2.0):  # Two checkpoints share it.
        errors_by_context(Counting(jnp.asarray(weight)), few)
    assert len(traced) == len({*traced}) * 2 == 2
    other = jax.tree.map(lambda x: x[::-1], few.prompts)
    swapped = by_context.PromptSets(dict(reversed(few.tasks.items())), other)
    errors_by_context(Counting(jnp.asarray(1.0)), swapped)
    assert len(traced) == 2


def test_a_weak_shift_is_no_shift_that_changes_nothing(monkeypatch):
    weak = {"weak": dataclasses.replace(TASK, shift=SkewedInputs(0.1))}
    assert draw_prompts(weak, 300, key=jax.random.key(0)).tasks == weak
    for shift in (OrthogonalQuery(3), SubspaceInputs(1), OrthantContext(2)):
        few = {"few": dataclasses.replace(TASK, shift=shift)}
        assert len(draw_prompts(few, 2, key=jax.random.key(0)).prompts.query_y[0]) == 2
    monkeypatch.setattr(SkewedInputs, "apply", lambda self, xs, choices: (xs, xs))
    with pytest.raises(ValueError, match="the shift weak changes nothing"):
        draw_prompts(weak, 20, key=jax.random.key(0))


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_evaluated():
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="prompts of one size"):
        draw_prompts({"a": TASK, "b": dataclasses.replace(TASK, dim=4)}, 5, key=key)
    ramps = Curriculum(Ramp(1, 5, 1, 1), Ramp(1, 11, 1, 1))
    grown = dataclasses.replace(TASK, curriculum=ramps)
    with pytest.raises(ValueError, match="task a: errors need whole prompts"):
        draw_prompts({"a": grown}, 5, key=key)
    labels = dataclasses.replace(TASK, function=LinearClassification())
    with pytest.raises(ValueError, match="scored alike"):
        draw_prompts({"a": TASK, "b": labels}, 5, key=key)
    wrong = "positions must be below points=11, got"
    for position in (11, -12):
        with pytest.raises(ValueError, match=wrong):
            errors_by_context(Averaging(), prompts(), positions=[position])


REFUSED = {
    "penalty must be at least 0": lambda: LeastSquares(-1.0),
    "ys must be an array [point=4], got shape [4, 1]": lambda: Averaging()(
        jnp.ones((4, 3)), jnp.ones((4, 1))
    ),
    "at least one point of at least one component": lambda: Averaging()(
        jnp.ones((0, 3)), jnp.ones(0)
    ),
    # Predictions would be rounded to whole numbers.
    "ys must be floats, got int32": lambda: Averaging()(
        jnp.ones((4, 3)), jnp.arange(4)
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        REFUSED[message]()


def test_bootstrap_intervals():
    """About as often as their level says, the interval holds the mean."""
    rng = np.random.default_rng(0)
    summary, held = BootstrapInterval("error"), 0
    for _ in range(200):
        rows = rng.exponential(size=(100, 1))
        bounds = summary({"error": rows, "loss": rows})
        held += bounds.low[0] <= 1 <= bounds.high[0]
    assert 0.82 < held / 200 < 0.95
    # The width is that of the normal approximation.
    rows = rng.normal(size=(1000, 2))
    rows[:500, 1] = np.nan
    bounds = summary({"error": rows, "loss": np.ones(1000)})
    wanted = 2 * 1.645 * np.nanstd(rows, 0) / np.sqrt([1000, 500])
    np.testing.assert_allclose(bounds.high - bounds.low, wanted, rtol=0.1)
    found = CountedMean("error")({"error": rows, "loss": np.ones(1000)})
    np.testing.assert_allclose(found, np.nanmean(rows, 0))
    broken = {"error": rows, "loss": np.array([1.0, np.inf])}
    assert np.all(np.isnan(CountedMean("error")(broken)))
    assert np.all(np.isnan(summary(broken).low))
    with pytest.raises(ValueError, match="level must be between 0 and 1, got 1"):
        BootstrapInterval("error", 1.0)
