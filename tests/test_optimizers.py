import itertools
import math

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import optax
import pytest
from regression import member, regression

from icl.training import fit, Training
from icl.training.optimizers import (
    Adam,
    AdamW,
    Constant,
    Cosine,
    OneCycle,
    OneCycleMomentum,
    SGD,
    WarmupDecay,
)
from icl.training.schedules import Dense, Every, Exactly, LogSpaced


STEPS, BATCH, SEED = 50, 8, 3
NEVER = Exactly(())

RATES = {
    "constant": Constant(0.02),
    "warmup_decay": WarmupDecay(0.03, warmup=10.0 * BATCH),
    "cosine": Cosine(0.03, total=40.0 * BATCH, warmup=10.0 * BATCH, final=0.002),
    "cosine_without_warmup": Cosine(0.03, total=40.0 * BATCH),
    "one_cycle": OneCycle(0.03, total=40.0 * BATCH, warmup=10.0 * BATCH),
}
OPTIMIZERS = {
    "sgd": lambda rate: SGD(rate),
    "sgd_all": lambda rate: SGD(rate, momentum=0.8, weight_decay=0.3, clip_norm=0.5),
    "adam": lambda rate: Adam(rate, b1=0.8, b2=0.95, eps=1e-3),
    "adam_clip": lambda rate: Adam(rate, clip_norm=0.3),
    "adamw": lambda rate: AdamW(rate, weight_decay=0.4, b2=0.99),
    "adamw_clip": lambda rate: AdamW(rate, weight_decay=0.1, clip_norm=0.5),
    "adamw_cycle": lambda rate: AdamW(
        rate, b1=OneCycleMomentum(40.0 * BATCH, 10.0 * BATCH), weight_decay=0.1
    ),
}


def rate_after(rate, seen):
    """The learning rate after some sequences, by the docstrings' formulas."""
    if isinstance(rate, Constant):
        return rate.rate
    if isinstance(rate, WarmupDecay):
        if seen == 0:
            return 0.0
        return rate.peak * min(seen / rate.warmup, math.sqrt(rate.warmup / seen))
    if isinstance(rate, OneCycle):
        return one_cycle(rate, seen, rate.peak / 25, rate.peak, rate.peak / 250_000)
    if seen < rate.warmup:
        return rate.peak * seen / rate.warmup
    t = min((seen - rate.warmup) / (rate.total - rate.warmup), 1)
    return rate.final + (rate.peak - rate.final) * (1 + math.cos(math.pi * t)) / 2


def one_cycle(times, seen, first, second, third):
    if seen < times.warmup:
        a, b, t = first, second, seen / times.warmup
    else:
        span = times.total - times.warmup
        a, b, t = second, third, min((seen - times.warmup) / span, 1)
    return b + (a - b) * (1 + math.cos(math.pi * t)) / 2


def steps_in_numpy(optimizer, w, batch_size):
    """The weights before each step, from the gradients; written from the papers."""
    m, v = np.zeros_like(w), np.zeros_like(w)
    for step in itertools.count():
        g = yield w
        norm = np.sqrt(np.sum(g**2))
        if optimizer.clip_norm is not None and norm > optimizer.clip_norm:
            g = g / norm * optimizer.clip_norm
        rate = rate_after(optimizer.learning_rate, step * batch_size)
        if isinstance(optimizer, SGD):
            m = optimizer.momentum * m + g + optimizer.weight_decay * w
            w = w - rate * m
        else:
            b1 = optimizer.b1
            if isinstance(b1, OneCycleMomentum):
                b1 = one_cycle(b1, step * batch_size, 0.95, 0.85, 0.95)
            m = b1 * m + (1 - b1) * g
            v = optimizer.b2 * v + (1 - optimizer.b2) * g**2
            m_hat = m / (1 - b1 ** (step + 1))
            v_hat = v / (1 - optimizer.b2 ** (step + 1))
            decay = getattr(optimizer, "weight_decay", 0.0) * w
            w = w - rate * (m_hat / (np.sqrt(v_hat) + optimizer.eps) + decay)


def drawn(task, step):
    """A step's batch by definition: x with a 1 for the bias, and y."""
    key = jax.random.fold_in(jax.random.key(SEED), step)
    sample = lambda key: task.sample(key=key, seen=0)
    x, y = jax.vmap(sample)(jax.random.split(key, BATCH))
    return np.concatenate([x, np.ones((BATCH, 1))], 1), np.asarray(y)


def regression_in_numpy(optimizer, model, batches):
    """Losses, gradient norms and final weights for the mean squared error."""
    losses, norms = [], []
    start = np.append(np.asarray(model.weight), model.bias)
    weights = steps_in_numpy(optimizer, start, BATCH)
    w = next(weights)
    for x, y in batches:
        error = x @ w - y
        gradient = 2 * x.T @ error / BATCH
        losses.append(np.mean(error**2))
        norms.append(np.sqrt(np.sum(gradient**2)))
        w = weights.send(gradient)
    return losses, norms, w


@pytest.fixture
def unchecked(monkeypatch):
    """Without the tests' type checks, as for a user."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture(scope="module")
def batches():
    with jax.enable_x64(True):
        return [drawn(regression(), step) for step in range(STEPS)]


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("sgd", "constant"),
        ("sgd", "cosine_without_warmup"),
        ("sgd_all", "warmup_decay"),
        ("adam", "constant"),
        ("adam", "cosine"),
        ("adam_clip", "warmup_decay"),
        ("adamw", "warmup_decay"),
        ("adamw_clip", "cosine"),
        ("adamw_cycle", "one_cycle"),
    ],
)
def test_fit_is_the_descent_of_the_papers(name, rate, batches):
    optimizer = OPTIMIZERS[name](RATES[rate])
    with jax.enable_x64(True):
        trained = member(optimizer, train_seed=SEED)
        (result,) = fit(trained, Training(STEPS * BATCH, BATCH, None, NEVER, NEVER))
        losses, norms, w = regression_in_numpy(optimizer, trained.model, batches)
        np.testing.assert_allclose(result.log.train["loss"], losses, rtol=1e-9)
        np.testing.assert_allclose(result.log.train["grad_norm"], norms, rtol=1e-9)
        np.testing.assert_allclose(result.model.weight, w[:-1], rtol=1e-9)
        np.testing.assert_allclose(result.model.bias, w[-1], rtol=1e-9)
    assert losses[-1] < 0.9 * losses[0]  # The oracle descends, too.


def test_fit_in_single_precision_is_that_descent_to_rounding():
    optimizer = Adam(Constant(0.02))
    trained = member(optimizer, train_seed=SEED)
    (result,) = fit(trained, Training(STEPS * BATCH, BATCH, None, NEVER, NEVER))
    batches = [drawn(regression(), step) for step in range(STEPS)]
    losses, _, w = regression_in_numpy(optimizer, trained.model, batches)
    np.testing.assert_allclose(result.log.train["loss"], losses, rtol=2e-4)
    np.testing.assert_allclose(result.model.weight, w[:-1], rtol=2e-4)


def update_after(rate, steps, batch_size):
    """The change of a weight with gradient 2 in a plain step, after some steps."""
    transform = SGD(rate).transform(batch_size)
    w = jnp.asarray(1.0)
    state = optax.tree.set(transform.init(w), count=jnp.asarray(steps, jnp.int32))
    updates, _ = jax.jit(transform.update)(jnp.asarray(2.0), state, w)
    return float(updates)


@pytest.mark.parametrize("steps", [2**12, 2**20, 2**30])
def test_many_sequences_do_not_overflow(steps):
    batch_size = 2**20
    rate = WarmupDecay(1.0, warmup=float(4 * steps * batch_size))
    assert update_after(rate, steps, batch_size) == pytest.approx(-0.5)


def test_numbers_of_optimizers_are_the_leaves_of_a_pytree():
    optimizer = AdamW(Cosine(0.1, 100.0), clip_norm=1.0)
    leaves = jax.tree.leaves(optimizer)
    assert leaves == [0.1, 100.0, 0.0, 0.0, 0.01, 0.9, 0.999, 1e-8, 1.0]
    rates = jax.tree.map(lambda x: jnp.asarray([x, 2 * x]), Cosine(0.1, 100.0))
    first = jax.vmap(lambda rate: rate.at(jnp.float32(0)))(rates)
    np.testing.assert_allclose(first, [0.1, 0.2])
    assert AdamW() == AdamW()
    assert AdamW() != AdamW(weight_decay=0.2)
    # JAX and Equinox may replace numbers by such leaves; that is no error.
    for leaf in (None, True, object(), 3, jnp.asarray(-1.0)):
        jax.tree.map(lambda _, leaf=leaf: leaf, optimizer)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Constant(-0.1), ["rate", "-0.1"]),
        (lambda: WarmupDecay(0.1, 0.0), ["warmup", "0.0"]),
        (lambda: Cosine(0.1, 10.0, warmup=20.0), ["total", "20.0", "10.0"]),
        (lambda: Adam(0.1), ["learning_rate", "Constant", "0.1"]),
        (lambda: Adam(b1=1.0), ["b1", "1.0"]),
        (lambda: SGD(momentum=1.5), ["momentum", "1.5"]),
        (lambda: Adam(eps=1e-50), ["eps", "1e-50"]),
    ],
)
def test_numbers_that_cannot_be_are_refused(make, words, unchecked):
    with pytest.raises(ValueError, match=words[0]) as caught:
        make()
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("schedule", "total", "points"),
    [
        (Every(30), 100, [0, 30, 60, 90, 100]),
        (Every(1), 3, [0, 1, 2, 3]),
        (Every(1000), 100, [0, 100]),
        (Exactly((50, 5, 5, 0, 100)), 100, [0, 5, 50, 100]),
        (Exactly(()), 100, []),
        (LogSpaced(3, first=10), 1000, [0, 10, 100, 1000]),
        (LogSpaced(1, first=10), 1000, [0, 10, 1000]),
        (LogSpaced(4, first=2000), 1000, [0, 1000]),
        (LogSpaced(10, first=1), 4, [0, 1, 2, 3, 4]),
        (LogSpaced(3, first=10), 90, [0, 10, 30, 90]),
        (Dense(20, 40, 5, 50), 100, [0, 20, 25, 30, 35, 40, 50, 100]),
        (Dense(20, 29, 4, 50), 100, [0, 20, 24, 28, 50, 100]),
        (Dense(90, 120, 10, 50), 100, [0, 50, 90, 100]),
    ],
    ids=repr,
)
def test_points_of_schedules(schedule, total, points):
    assert schedule.points(total) == points
    assert all(type(point) is int for point in schedule.points(total))


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [
        (Every(30), {0, 1, 2, 3, 4}),
        (Every(32), {0, 1, 2, 3, 4}),
        (Every(64), {0, 2, 4}),
        (Exactly((1, 32, 33, 100)), {1, 2, 4}),
        (Exactly(()), set()),
    ],
    ids=repr,
)
def test_a_point_between_two_steps_means_the_later_one(schedule, steps):
    training = Training(num_sequences=100, batch_size=32)
    assert training.num_steps == 4
    assert training.steps_of(schedule) == steps


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Every(0), ["sequences", "positive", "0"]),
        (
            lambda: Training(64, 32, None, Exactly((5, 65))),
            ["after the end at 64", "[65]"],
        ),
        (lambda: Exactly((5, -1)), ["sequences", "(5, -1)"]),
        (lambda: Dense(0, 10, 0, 5), ["inside", "0"]),
        (lambda: Dense(10, 10, 5, 5), ["start", "stop", "10, 10"]),
        (lambda: Training(num_sequences=0), ["num_sequences", "0"]),
        (lambda: Training(microbatch_size=5), ["microbatch_size", "32", "5"]),
    ],
)
def test_lengths_that_cannot_be_are_refused(make, words, unchecked):
    with pytest.raises(ValueError, match=words[0]) as caught:
        make()
    assert all(word in str(caught.value) for word in words)
