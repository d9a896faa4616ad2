"""Orders of the pairs of a context, and noise on some of them, against NumPy."""

import dataclasses
import functools
import pathlib
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import icl
from icl import TaskSet, Training
from icl.batches import batch
from icl.config import from_json, to_json
from icl.presets.gradient_descent import lsa
from icl.protocols import TaskConfig
from icl.tasks.regression import (
    AsDrawn,
    EasyToHard,
    FreshTeacher,
    GaussianInputs,
    HardToEasy,
    LinearRegression,
    MatchedMarginals,
    NoisyValues,
    RandomOrder,
    RandomPairs,
    SmallToLargeNorm,
    UniformPairs,
)
from icl.tasks.regression.pair_noise import placed


REFERENCE = pathlib.Path(__file__).parents[2] / "shared/data/gd_upstream"
needs_reference = pytest.mark.skipif(
    not REFERENCE.exists(), reason="needs the reference data"
)
TASK = LinearRegression(3, 6, GaussianInputs(), queries=2)
ORDERINGS = {
    "random": AsDrawn(),
    "smallnorm2largenorm": SmallToLargeNorm(),
    "easy2hard": EasyToHard(),
    "hard2easy": HardToEasy(),
}
PLACEMENTS = ("mixed", "clean_first", "noisy_first")


def drawn(count=400, seed=0, **settings):
    task = dataclasses.replace(TASK, **settings)
    found = jax.jit(lambda key: batch(task, count, key=key))(jax.random.key(seed))
    names = ("context_x", "context_y", "query_x", "query_y", "weights")
    parts = {name: np.asarray(getattr(found, name)) for name in names}
    more = {name: getattr(found, name) for name in ("noisy", "order")}
    more = {name: x if x is None else np.asarray(x) for name, x in more.items()}
    return SimpleNamespace(**parts, **more)


def back(examples):
    """The context as it was before it was put in order."""
    there = np.argsort(examples.order, 1)
    x = np.take_along_axis(examples.context_x, there[..., None], 1)
    return x, np.take_along_axis(examples.context_y, there, 1)


# Order


@pytest.mark.parametrize("ordering", ORDERINGS.values(), ids=ORDERINGS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_only_the_order_of_the_pairs_changes(ordering, placement):
    noise = NoisyValues(0.4, 0.7, placement)
    plain = drawn(pair_noise=NoisyValues(0.4, 0.7))
    found = drawn(pair_noise=noise, ordering=ordering)
    for name in ("query_x", "query_y", "weights"):
        np.testing.assert_array_equal(getattr(found, name), getattr(plain, name))
    x, y = back(found)
    np.testing.assert_array_equal(x, plain.context_x)
    np.testing.assert_array_equal(y, plain.context_y)
    # What is noisy is where the mask says.
    clean = np.einsum("tnd,td->tn", found.context_x, found.weights)
    assert np.all(~found.noisy <= np.isclose(found.context_y, clean, atol=1e-5))
    assert np.mean(found.noisy) == pytest.approx(0.4, abs=0.05)
    residuals = np.where(found.noisy, np.abs(found.context_y - clean), 0)
    keys = {
        SmallToLargeNorm: np.linalg.norm(found.context_x, axis=-1),
        EasyToHard: residuals,
        HardToEasy: -residuals,
        AsDrawn: found.order,
    }[type(ordering)]
    first = {"mixed": 0 * found.noisy, "clean_first": found.noisy}
    group = first.get(placement, ~found.noisy).astype(int)
    assert np.all(np.diff(group, axis=1) >= 0)
    same = np.diff(group, axis=1) == 0
    assert np.all(np.diff(keys, axis=1)[same] >= -1e-6)
    # Equal pairs stay as they were drawn.
    equal = same & (np.diff(keys, axis=1) == 0)
    assert np.all(np.diff(found.order, axis=1)[equal] > 0)


def test_a_random_order_is_uniform_and_said():
    found, plain = drawn(4000, ordering=RandomOrder()), drawn(4000)
    np.testing.assert_array_equal(back(found)[0], plain.context_x)
    assert plain.order is None
    assert found.noisy is plain.noisy is None
    counts = np.apply_along_axis(np.bincount, 0, found.order, minlength=6)
    assert np.abs(counts / 4000 - 1 / 6).max() < 6 * np.sqrt(5 / 36 / 4000)


def test_residuals_of_clean_values_have_no_order():
    for ordering in (EasyToHard(), HardToEasy()):
        message = f"{type(ordering).__name__} needs noisy .*; use SmallToLargeNorm"
        with pytest.raises(ValueError, match=message):
            LinearRegression(ordering=ordering)
        with pytest.raises(ValueError, match=message):
            LinearRegression(ordering=ordering, pair_noise=RandomPairs(0.0))
        found = drawn(ordering=ordering, noise=0.3)
        clean = np.einsum("tnd,td->tn", found.context_x, found.weights)
        sign = 1 if ordering == EasyToHard() else -1
        steps = sign * np.diff(np.abs(found.context_y - clean), axis=1)
        assert np.all(steps >= -1e-6)


# Noise on pairs


SOURCES = (FreshTeacher(), MatchedMarginals(), UniformPairs(0.8))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: type(source).__name__)
def test_pairs_that_do_not_belong_to_the_task(source):
    count = 4000
    plain = drawn(count)
    found = drawn(count, pair_noise=RandomPairs(0.5, source))
    noisy = found.noisy
    assert noisy.mean() == pytest.approx(0.5, abs=0.03)
    for name in ("query_x", "query_y", "weights"):
        np.testing.assert_array_equal(getattr(found, name), getattr(plain, name))
    for name in ("context_x", "context_y"):
        new, old = getattr(found, name), getattr(plain, name)
        np.testing.assert_array_equal(new[~noisy], old[~noisy])
        assert not np.any(new[noisy] == old[noisy])
    x, y = found.context_x[noisy], found.context_y[noisy]
    clean = np.einsum("tnd,td->tn", plain.context_x, plain.weights)
    if source == UniformPairs(0.8):
        for values in (x, y):
            assert np.abs(values).max() <= 0.8
            assert values.std() == pytest.approx(0.8 / np.sqrt(3), rel=0.02)
        return
    assert x.std() == pytest.approx(1, rel=0.02)
    assert y.std() == pytest.approx(clean.std(), rel=0.06)
    # Nothing of the task's own weights is in the new pairs.
    own = np.einsum("tnd,td->tn", found.context_x, found.weights)[noisy]
    assert abs(np.corrcoef(own, y)[0, 1]) < 6 / np.sqrt(count)
    several = noisy.sum(1) > TASK.dim
    assert several.sum() > 100
    errors = []
    for which in np.flatnonzero(several)[:200]:
        points, values = (
            a[which][noisy[which]] for a in (found.context_x, found.context_y)
        )
        left = np.linalg.lstsq(points, values, rcond=None)[0]
        errors.append(np.abs(points @ left - values).max())
    # One other teacher explains all of them, or none does.
    assert (np.max(errors) < 1e-3) == (source == FreshTeacher())
    if source == MatchedMarginals():
        assert np.min(errors) > 1e-5


def test_noise_on_values():
    plain = drawn(4000)
    found = drawn(4000, pair_noise=NoisyValues(0.25, 0.7))
    np.testing.assert_array_equal(found.context_x, plain.context_x)
    added = found.context_y - plain.context_y
    np.testing.assert_array_equal(added[~found.noisy], 0)
    assert added[found.noisy].std() == pytest.approx(0.7, rel=0.03)
    both = drawn(4000, pair_noise=RandomPairs(0.5), noise=0.3)
    clean = np.einsum("tnd,td->tn", both.context_x, both.weights)
    left = (both.context_y - clean)[~both.noisy]
    assert left.std() == pytest.approx(0.3, rel=0.03)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NoisyValues(1.5), r"probability must be in \[0, 1\], got 1.5"),
        (lambda: NoisyValues(0.5, 0.0), "std must be positive and finite, got 0.0"),
        (lambda: RandomPairs(-0.1), r"probability must be in \[0, 1\], got -0.1"),
        (lambda: UniformPairs(-1.0), "bound must be positive and finite, got -1.0"),
        (
            lambda: from_json(NoisyValues, {"probability": 0.5, "placement": "last"}),
            "placement: wanted one of 'mixed', 'clean_first', 'noisy_first', got",
        ),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# The reference


def of_pairs(data, layout):
    """How to read the pairs of tokens of the public code, and the order of pairs."""

    def split(tokens):
        if layout == "concat":
            return tokens[:, :-1, :-1], tokens[:, :-1, -1]
        return tokens[:, :-1:2], tokens[:, 1::2, -1]

    def indices(order):
        if layout == "concat":
            return order
        np.testing.assert_array_equal(order[:, ::2] + 1, order[:, 1::2])
        return order[:, ::2] // 2

    return split, indices


@needs_reference
@pytest.mark.parametrize("layout", ["concat", "interleaved"])
@pytest.mark.parametrize("noise", ["clean", "label_noise_all", "random_pairs"])
def test_orders_of_the_reference(layout, noise):
    with np.load(REFERENCE / f"order_{layout}_d4_n6.npz") as data:
        split, indices = of_pairs(data, layout)
        noisy = data["seq"] if noise == "clean" else data[f"{noise}/noisy_seq"]
        x, y = split(noisy)
        residuals = np.abs(y - np.einsum("tnd,td->tn", x, data["w"]))
        # Elsewhere, the order of residuals is that of rounding errors.
        by_residual = noise == "label_noise_all"
        for name, ordering in ORDERINGS.items():
            if name in ("easy2hard", "hard2easy") and not by_residual:
                continue
            indices_of = functools.partial(ordering.indices, key=jax.random.key(0))
            found = jax.vmap(indices_of)(jnp.asarray(x), jnp.asarray(residuals))
            where = f"{noise}/{name}/mixed"
            wanted = indices(data[f"{where}/ordering_idx"])
            np.testing.assert_array_equal(found, wanted)
            moved = split(data[f"{where}/seq"])
            for ours, theirs in zip((x, y), moved, strict=True):
                ours = np.stack([a[o] for a, o in zip(ours, found, strict=True)])
                np.testing.assert_allclose(ours, theirs, atol=1e-5)


@needs_reference
def test_noisy_pairs_are_placed_as_in_the_reference():
    """Of interleaved tokens, only a mask of pairs has a meaning."""
    with np.load(REFERENCE / "order_concat_d4_n6.npz") as data:
        for noise in ("label_noise", "random_pairs"):
            for name in ("random", "smallnorm2largenorm"):
                order = data[f"{noise}/{name}/mixed/ordering_idx"]
                check_placed(data, f"{noise}/{name}", order, data[f"{noise}/mask"])
    for layout in ("concat", "interleaved"):
        with np.load(REFERENCE / f"order_{layout}_d4_n6.npz") as data:
            _, indices = of_pairs(data, layout)
            mask = data["chosen/pair_mask"]
            order = np.broadcast_to(np.arange(mask.shape[1]), mask.shape)
            check_placed(data, "chosen", order, mask, indices)


def check_placed(data, where, order, noisy, indices=lambda order: order):
    for placement in ("clean_first", "noisy_first"):
        found = jax.vmap(lambda o, n, p=placement: placed(o, n, p))(
            jnp.asarray(order), jnp.asarray(noisy)
        )
        wanted = indices(data[f"{where}/{placement}/ordering_idx"])
        np.testing.assert_array_equal(found, wanted)
        mask = np.take_along_axis(noisy, np.asarray(found), 1)
        theirs = data[f"{where}/{placement}/mask"]
        times = theirs.shape[1] // mask.shape[1]
        np.testing.assert_array_equal(np.repeat(mask, times, 1), theirs)


# Experiments


NOISY = LinearRegression(
    pair_noise=RandomPairs(0.3, MatchedMarginals(), "noisy_first"),
    ordering=HardToEasy(),
    input_scale=2.0,
)


def test_settings_are_stored_as_json():
    assert from_json(TaskConfig, to_json(NOISY) | {"type": "LinearRegression"}) == NOISY
    older = {"type": "LinearRegression", "dim": 4, "context": 7, "noise": 0.5}
    older["input_distribution"] = {"type": "GaussianInputs", "std": 2.0}
    wanted = LinearRegression(4, 7, GaussianInputs(2.0), 0.5)
    assert from_json(TaskConfig, older) == wanted


def test_training_and_evaluation_have_settings_of_their_own(tmp_path):
    """A set keeps its mask and order in the file, although training has none."""
    experiment = dataclasses.replace(
        lsa(),
        training=Training(64, 32),
        evaluations={"plain": TaskSet(8), "noisy": TaskSet(8, NOISY)},
    )
    icl.run_experiment(experiment, tmp_path / "run")
    wanted = experiment.build().evaluations
    found = icl.load(tmp_path / "run").evaluations
    assert found["plain"].noisy is found["plain"].order is None
    for name in ("x", "y", "noisy", "order"):
        ours, theirs = (getattr(x["noisy"], name) for x in (found, wanted))
        np.testing.assert_array_equal(ours, theirs)
