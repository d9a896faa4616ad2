"""Functions in context: classes, shifts and curriculum, against the public codes."""

import dataclasses
import functools
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import icl
from icl import Training
from icl.batches import batch, example_of, load_batches, save_batches
from icl.config import from_json, to_json
from icl.protocols import ModelConfig, TaskConfig
from icl.summaries import summarise
from icl.tasks.functions import Curriculum, InContextFunction, Ramp
from icl.tasks.functions.classes import (
    AffineFunction,
    DecisionTree,
    LinearClassification,
    LinearFunction,
    NoisyLinear,
    QuadraticFunction,
    SparseLinear,
    TwoLayerReLU,
    UniformLinear,
)
from icl.tasks.functions.classes.noisy import ExpectedSize
from icl.tasks.functions.shifts import (
    check_change,
    largest_change,
    OppositeQuery,
    OrthantContext,
    OrthogonalQuery,
    OverlappingQuery,
    ScaledInputs,
    ScaledQuery,
    SkewedInputs,
    SubspaceInputs,
)
from icl.training.schedules import Every


REFERENCE = pathlib.Path(__file__).parents[2] / "shared/data/limits_of_icl"
needs_reference = pytest.mark.skipif(
    not REFERENCE.exists(), reason="needs the reference data"
)


@eqx.filter_jit
def drawn(task, size, seed, seen=0):
    return batch(task, size, key=jax.random.key(seed), seen=seen)


@functools.cache
def read(name):
    with np.load(REFERENCE / f"{name}.npz") as data:
        return dict(data)


# Classes

# What each class of the reference is here, and its parameters under our names.
CLASSES = {
    "linear": (LinearFunction(), {"w": "w"}),
    "linear_scaled": (LinearFunction(0.5), {"w": "w"}),
    "sparse": (SparseLinear(2), {"w": "w"}),
    "uniform": (UniformLinear(), {"w": "w"}),
    "affine": (AffineFunction(0.7), {"w": "w", "b": "b"}),
    "classification": (LinearClassification(), {"w": "w"}),
    "quadratic": (QuadraticFunction(), {"w": "w"}),
    "relu_2nn": (TwoLayerReLU(7), {"W1": "W1", "W2": "W2"}),
    "decision_tree": (
        DecisionTree(3),
        {"coordinates": "coordinates", "leaves": "leaves"},
    ),
}


def parameters(name, names):
    data = read("functions")
    found = {ours: data[f"{name}/{theirs}"] for ours, theirs in names.items()}
    columns = {"w", "b", "W2"}  # Stored with a last axis of length 1.
    return {
        key: jnp.asarray(x[..., 0] if key in columns else x) for key, x in found.items()
    }


def values(function, parameters, xs):
    evaluate = jax.jit(jax.vmap(function.values))
    return np.asarray(evaluate(parameters, jnp.asarray(xs)))


@needs_reference
@pytest.mark.parametrize("name", CLASSES)
def test_values_of_the_public_code(name):
    function, names = CLASSES[name]
    data = read("functions")
    found = values(function, parameters(name, names), data[f"{name}/xs"])
    np.testing.assert_allclose(found, data[f"{name}/ys"], atol=1e-5)


@needs_reference
def test_noisy_values_of_the_public_code():
    data = read("functions")
    for name in ("noisy", "noisy_renormalized"):
        std = float(data[f"{name}/noise_std"])
        drawn = parameters(name, {"w": "w", "noise": "noise"})
        drawn["factor"] = jnp.ones(4)
        found = values(NoisyLinear(std), drawn, data[f"{name}/xs"])
        if name == "noisy_renormalized":  # By the deviation of the whole batch.
            found = found * np.sqrt(5) / found.std(ddof=1)
        np.testing.assert_allclose(found, data[f"{name}/ys"], atol=1e-5)


@needs_reference
def test_scores_of_the_public_code():
    data = read("functions")
    for name in ("linear", "classification"):
        task = InContextFunction(CLASSES[name][0], dim=5, points=8)
        xs, ys, pred = (data[f"{name}/{x}"] for x in ("xs", "ys", "pred"))
        example = drawn(task, 4, 0)
        example = dataclasses.replace(example, xs=jnp.asarray(xs), ys=jnp.asarray(ys))
        found = jax.vmap(task.metrics)(jnp.asarray(pred), example)
        loss = data[f"{name}/training_loss"]
        np.testing.assert_allclose(found["loss"].mean(), loss, rtol=1e-6)
        wanted = (
            data["linear/squared_error"] / 5
            if name == "linear"
            else 1 - data["classification/accuracy"]
        )
        np.testing.assert_allclose(found["error"], wanted, rtol=1e-5)


EVERY = {
    **{name: function for name, (function, _) in CLASSES.items()},
    "noisy": NoisyLinear(0.5),
    "expected_size": NoisyLinear(1.5, 2.0, ExpectedSize()),
}


@pytest.mark.parametrize("name", EVERY)
def test_errors_are_divided_by_the_mean_square(name):
    """The mean square of the values is what the class says, up to noise and offset.

    In the curriculum, three of six components are in use, and later five.
    """
    function = EVERY[name]
    shift = None if name == "classification" else ScaledInputs(1.5)
    curriculum = Curriculum(Ramp(3, 5, 1, 1000), Ramp(2, 3, 1, 1000))
    shifted = InContextFunction(function, dim=4, points=3, shift=shift)
    growing = InContextFunction(function, dim=6, points=3, curriculum=curriculum)
    extra = {"noisy": 0.25, "affine": 0.49}.get(name, 0.0)
    for task, seen in ((shifted, 0), (growing, 0), (growing, 5000)):
        examples = drawn(task, 20_000, 0, seen)
        found = np.asarray(examples.ys, np.float64)[:, 0] ** 2
        wanted = np.mean(examples.mean_square) + extra
        assert abs(found.mean() - wanted) <= 5 * found.std() / np.sqrt(len(found))
        if task is shifted:
            assert task.mean_square == pytest.approx(wanted - extra)


@pytest.mark.parametrize(
    "shift",
    [
        SkewedInputs(2.9),
        SubspaceInputs(4),
        OrthogonalQuery(2),
        OppositeQuery(2),
        OrthantContext(3),
        ScaledQuery(1.5),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    "function", [QuadraticFunction(1.5), NoisyLinear(1.1, size=ExpectedSize())]
)
def test_shifts_change_the_mean_square(function, shift):
    """Errors are divided by the mean square of the values at shifted queries."""
    task = InContextFunction(function, dim=5, points=4, shift=shift)
    examples = drawn(task, 40_000, 0)
    counts = np.asarray(examples.counts)
    ys = np.asarray(examples.ys, np.float64)
    found = np.sum(ys**2 * counts, 1) / counts.sum(1)
    error = abs(found.mean() - task.mean_square)
    assert error <= 5 * found.std() / np.sqrt(len(found))


def test_sparse_weights_are_among_components_in_use():
    draw = jax.vmap(lambda key, n: SparseLinear(2).draw(9, 6, active=n, key=key)["w"])
    keys = jax.random.split(jax.random.key(0), 500)
    for active in (1, 3, 6):
        used = np.asarray(draw(keys, jnp.full(500, active))) != 0
        kept = min(2, active)
        assert np.all(used.sum(1) == kept)
        assert not used[:, active:].any()
        np.testing.assert_allclose(used.mean(0)[:active], kept / active, atol=0.1)


# Shifts


def applied(shift, xs, choices):
    found = jax.vmap(shift.apply)(jnp.asarray(xs), choices)
    return tuple(map(np.asarray, found))


def same(found, wanted):
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def flags(indices, size):
    """Whether each of `size` places is among the indices, for each prompt."""
    return jnp.asarray([np.isin(np.arange(size), row) for row in indices])


def shift_of(name, shift, choices):
    """A shift of the reference's draw, and what the reference has."""
    data = read("shifts")
    context, query = applied(shift, data[f"{name}/xs"], choices)
    wanted = data[f"{name}/context"]
    return context, query, wanted, data.get(f"{name}/query", wanted)


@needs_reference
def test_shifts_of_the_public_code():
    data = read("shifts")
    turned = lambda name: np.linalg.eigh(data[f"{name}/transform"])[1][:, ::-1]
    rows = [
        ("scaled_query", ScaledQuery(2.1), {}),
        ("skewed", SkewedInputs(1.3), {"rotation": turned("skewed")}),
        ("subspace", SubspaceInputs(1), {"rotation": turned("subspace")}),
    ]
    rows = [
        (name, shift, {k: jnp.asarray(np.stack([x] * 4)) for k, x in choices.items()})
        for name, shift, choices in rows
    ]
    for name in ("random_quadrants", "dtsip/random_quadrants"):
        which = flags(data.get(f"{name}/constrained", [range(8)] * 4), 8)
        signs = jnp.asarray(data[f"{name}/pattern"][:, 0])
        rows.append((name, OrthantContext(), {"signs": signs, "constrained": which}))
    for name in ("overlapping_train_test", "dtsip/overlapping_train_test"):
        source = np.concatenate([np.zeros((4, 1), int), data[f"{name}/source"].T], 1)
        rows.append((name, OverlappingQuery(), {"source": jnp.asarray(source)}))
    for name, shift, choices in rows:
        context, query, *wanted = shift_of(name, shift, choices)
        same(context, wanted[0])
        same(query, wanted[1])


@needs_reference
def test_opposite_queries_of_the_public_codes():
    name = "dtsip/opposite_quadrants"
    signs = jnp.asarray(read("shifts")[f"{name}/pattern"][:, 0])
    choices = {"signs": signs, "flipped": jnp.ones((4, 3), bool)}
    context, query, *wanted = shift_of(name, OppositeQuery(), choices)
    same(context, wanted[0])
    same(query, wanted[1])
    # limits_of_icl flips signs that are random anyway: a free query.
    data = {k: read("shifts")[f"opposite_quadrants/{k}"] for k in ("xs", "flipped")}
    flipped = np.asarray(flags(data["flipped"], 3))[:, None]
    xs = np.where(flipped, -data["xs"], data["xs"])
    pattern = jnp.asarray(read("shifts")["opposite_quadrants/pattern"][:, 0])
    choices = {"signs": pattern, "constrained": jnp.ones((4, 8), bool)}
    found = applied(OrthantContext(), xs, choices)
    same(found[0], read("shifts")["opposite_quadrants/context"])
    same(found[1], read("shifts")["opposite_quadrants/query"])


@needs_reference
def test_orthogonal_queries_of_the_public_codes():
    data = read("shifts")
    used = np.zeros((8, 8), bool)
    for i, row in enumerate(data["orthogonal_train_test/used"]):
        used[i, [j for j in row if j >= 0]] = True
    every = np.tri(8, k=-1, dtype=bool)
    for name, mask in (
        ("orthogonal_train_test", used),
        ("dtsip/orthogonal_train_test", every),
    ):
        choices = {"used": jnp.asarray(np.stack([mask] * 4))}
        context, query, *wanted = shift_of(name, OrthogonalQuery(), choices)
        same(context, wanted[0])
        # Later queries were not changed, or are zero: they are not orthogonal queries.
        np.testing.assert_allclose(query[:, :3], wanted[1][:, :3], atol=1e-4)
    # Ours are, at every position.
    shift = OrthogonalQuery(2)
    xs = jax.random.normal(jax.random.key(0), (20, 8, 3))
    keys = jax.random.split(jax.random.key(1), 20)
    chosen = jax.vmap(lambda key: shift.choices(8, 3, key=key))(keys)
    context, query = applied(shift, xs, chosen)
    used = np.asarray(chosen["used"])
    assert np.all(used.sum(2) == np.minimum(np.arange(8), 2))
    assert not np.any(used & ~np.tri(8, k=-1, dtype=bool))
    products = np.einsum("pid,pjd->pij", query, context)
    np.testing.assert_allclose(products[used], 0, atol=1e-4)
    lengths = [np.linalg.norm(x, axis=2) for x in (query, xs)]
    np.testing.assert_allclose(*lengths, rtol=1e-5)


SHIFTS = {
    "skewed": SkewedInputs(0.3),
    "subspace": SubspaceInputs(1),
    "larger": ScaledInputs(1.1),
    "query": ScaledQuery(1.2),
    "orthant": OrthantContext(),
    "some_in_orthant": OrthantContext(3),
    "opposite": OppositeQuery(),
    "one_opposite": OppositeQuery(1),
    "orthogonal": OrthogonalQuery(),
    "one_orthogonal": OrthogonalQuery(1),
    "overlapping": OverlappingQuery(),
}


@dataclasses.dataclass(frozen=True)
class Unmoved(OrthantContext):
    """A shift that changes nothing, with queries where a shift has them."""

    where: range = range(1)

    def queries(self, points, dim):
        return self.where

    def apply(self, xs, choices):
        return xs, xs


@pytest.mark.parametrize("name", SHIFTS)
def test_a_shift_changes_the_distribution(name):
    shift, size = SHIFTS[name], 1280
    where = shift.queries(6, 5)
    task = InContextFunction(dim=5, points=6, shift=shift)
    plain = dataclasses.replace(task, shift=Unmoved(where=where) if where else None)
    shifted = drawn(task, size, 0)
    standard, again = drawn(plain, size, 0), drawn(plain, size, 1)
    check_change(name, shifted, standard)
    assert largest_change(again, standard) < 5
    with pytest.raises(ValueError, match=f"the shift {name} changes nothing"):
        check_change(name, again, standard)
    if where is not None:
        counts = np.asarray(shifted.counts)
        assert np.all(counts.sum(1) == 1)
        assert {*np.flatnonzero(counts.any(0))} == {*where}


def test_the_query_is_the_only_shifted_point():
    task = InContextFunction(dim=5, points=6, shift=ScaledQuery(3.0))
    key = jax.random.key(4)
    prompt, example = task.prompt(key=key), task.sample(key=key)
    counts = np.asarray(example.counts)
    wanted = np.where(counts[:, None], prompt.query_x, prompt.context_x)
    np.testing.assert_array_equal(example.xs, wanted)
    wanted = np.where(counts, prompt.query_y, prompt.context_y)
    np.testing.assert_allclose(example.ys, wanted, rtol=1e-6)
    np.testing.assert_array_equal(prompt.query_x, 3 * prompt.context_x)
    assert task.mean_square == 45


# Curriculum

PUBLISHED = Curriculum(Ramp(5, 20, 1, 128_000), Ramp(11, 41, 2, 128_000))


def test_the_ramp_of_the_public_code():
    """As a loop over steps, which adds at each interval (64 sequences a step)."""
    width, length = 5, 11
    for step in range(40_001):
        if step and step % 2000 == 0:
            width, length = min(width + 1, 20), min(length + 2, 41)
        if step % 1999 == 0 or step % 2000 == 0:
            assert int(PUBLISHED.dims.at(64 * step)) == width
            assert int(PUBLISHED.points.at(64 * step)) == length
    assert int(PUBLISHED.dims.at(2**31 - 1)) == 20
    whole = InContextFunction(curriculum=PUBLISHED)
    stage = whole.stage(64 * np.arange(0, 40_000, 1000))
    assert stage["n_dims"].tolist()[:4] == [5, 5, 6, 6]
    assert stage["n_points"].tolist()[-11:] == [39, *[41] * 10]
    assert int(Ramp(1, 6, 4, 10).at(15)) == 5
    assert int(Ramp(1, 6, 4, 10).at(2_000_000_000)) == 6
    assert Ramp(1, 6, 4, 10).at(np.array([9, 2**31 + 5, 2**40])).tolist() == [1, 6, 6]


SMALL = InContextFunction(
    dim=3, points=5, curriculum=Curriculum(Ramp(1, 3, 1, 16), Ramp(2, 5, 2, 24))
)


def test_what_is_not_in_use_is_zero_and_does_not_count():
    sample = jax.jit(lambda key, seen: SMALL.sample(key=key, seen=seen))
    for seen, dims, points in ((0, 1, 2), (16, 2, 2), (47, 3, 4), (1000, 3, 5)):
        example = sample(jax.random.key(0), seen)
        used = np.arange(5) < points
        np.testing.assert_array_equal(example.counts, used)
        xs = np.asarray(example.xs)
        inside = used[:, None] & (np.arange(3) < dims)
        assert np.array_equal(xs != 0, inside)
        assert np.array_equal(np.asarray(example.ys) != 0, used)
        prediction = np.arange(5.0)
        found = SMALL.metrics(jnp.asarray(prediction), example)
        squared = (prediction - np.asarray(example.ys)) ** 2
        np.testing.assert_allclose(found["loss"], squared[:points].mean(), rtol=1e-6)
        same_nan = np.where(used, squared / dims, np.nan)
        np.testing.assert_allclose(found["error"], same_nan, rtol=1e-6)


class Recurrent(eqx.Module):
    """A running mean of products and a line on it: a model for these tests."""

    weights: jax.Array

    def __call__(self, xs, ys, *, tap=None):
        steps = jnp.cumsum(xs * ys[:, None], 0) - xs * ys[:, None]
        return jnp.sum(steps * xs, 1) * self.weights[0] + self.weights[1]


@dataclasses.dataclass(frozen=True)
class RecurrentConfig(ModelConfig):
    def build(self, interface, *, key):
        return Recurrent(0.1 * jax.random.normal(key, (2,)))


def test_a_curriculum_resumes_to_the_same_bits(tmp_path):
    experiment = icl.Experiment(
        SMALL,
        model=RecurrentConfig(),
        training=Training(96, 8, evaluate_at=Every(32), checkpoint_at=Every(32)),
        evaluations={
            "train": icl.TaskSet(16),
            "query": icl.TaskSet(
                32, dataclasses.replace(SMALL, curriculum=None, shift=ScaledQuery(2.0))
            ),
        },
    )
    whole = icl.run_experiment(experiment, tmp_path / "whole")

    class Stop:
        def log(self, sequences, metrics):
            if sequences >= 40:
                raise KeyboardInterrupt

        def close(self):
            pass

    with pytest.raises(KeyboardInterrupt):
        icl.run_experiment(experiment, tmp_path / "parts", logger=Stop())
    again = icl.run_experiment(experiment, tmp_path / "parts", resume=True)
    assert eqx.tree_equal(whole.model, again.model)
    for name, rows in whole.log.train.items():
        np.testing.assert_array_equal(rows, again.log.train[name])
    # The loss of step 4 is that of its stage: 4 points, by the model after 32 prompts.
    key = jax.random.fold_in(jax.random.key(0), 4)
    taken = jax.jit(lambda key: batch(SMALL, 8, key=key, seen=32))(key)
    trained = icl.load(tmp_path / "whole", 32)
    xs, ys = np.asarray(taken.xs, np.float64), np.asarray(taken.ys, np.float64)
    assert np.all((ys != 0).sum(1) == 4)
    products = xs * ys[..., None]
    before = np.cumsum(products, 1) - products
    slope, offset = np.asarray(trained.model.weights, np.float64)
    errors = (before * xs).sum(2) * slope + offset - ys
    logged = whole.log.train["loss"][4]
    np.testing.assert_allclose(logged, (errors[:, :4] ** 2).mean(), rtol=1e-5)
    assert trained.evaluations["query"].counts.sum() == 32
    rows = {k: x[-1] for k, x in whole.log.evaluations["query"].items()}
    found = summarise(rows, SMALL.summaries)
    low, high = (found[f"error_interval_{part}"] for part in ("low", "high"))
    assert found["error"].shape == low.shape == high.shape == (5,)
    assert np.all((low <= found["error"]) & (found["error"] <= high))


# Configs and refusals


def test_configs_and_batches_are_read_again(tmp_path):
    task = InContextFunction(DecisionTree(2), 3, 4, OppositeQuery(2))
    assert from_json(TaskConfig, {"type": "InContextFunction", **to_json(task)}) == task
    sets = {"one": drawn(task, 5, 0)}
    save_batches(tmp_path / "sets.h5", sets)
    read_again = load_batches(tmp_path / "sets.h5", example_of(task))
    assert eqx.tree_equal(read_again, sets)


def task(**settings):
    return InContextFunction(**{"dim": 3, "points": 4, **settings})


WRONG = [
    (lambda: task(shift=OrthogonalQuery(3)), "vectors must be below dim=3, got 3"),
    (lambda: task(shift=SubspaceInputs(3)), "removed must be below dim=3, got 3"),
    (lambda: task(shift=OrthantContext(5)), "constrained must be at most points=4"),
    (lambda: OrthantContext(1), "constrained=1 changes nothing: leave"),
    (lambda: ScaledQuery(1.0), "scale=1.0 changes nothing"),
    (lambda: task(function=SparseLinear(4)), "sparsity must be at most dim=3, got 4"),
    (lambda: task(points=1, shift=OppositeQuery()), "needs a point before the query"),
    (lambda: task(dim=1, shift=OrthogonalQuery()), "a point before .*, dim=1"),
    (lambda: TwoLayerReLU(0), "hidden must be a positive integer, got 0"),
    (lambda: NoisyLinear(0.0), "noise_std must be positive and finite, got 0.0"),
    (lambda: Ramp(5, 4, 1, 1), "end must be at least start=5, got 4"),
    (
        lambda: task(points=41, curriculum=PUBLISHED),
        "curriculum: dims must end at 3 or below, got 20",
    ),
    (
        lambda: dataclasses.replace(SMALL, shift=ScaledQuery(2.0)),
        "ScaledQuery is for evaluation: set curriculum to None",
    ),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_settings_that_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
