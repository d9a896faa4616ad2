"""Linear regression in context, and linear self-attention, against NumPy."""

import csv
import dataclasses
import functools
import subprocess
import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
import rates
from scipy import stats

import icl
from icl import cli, TaskSet, Training
from icl.baselines.gradient_descent import one_step, one_step_loss
from icl.batches import batch
from icl.models.linear_attention import LinearSelfAttentionConfig
from icl.presets.gradient_descent import lsa
from icl.protocols import TaskConfig
from icl.report import figures
from icl.report.grouping import Inapplicable
from icl.report.subject import Subject
from icl.tasks.regression import (
    CorrelatedInputs,
    GaussianInputs,
    LinearRegression,
    NoisyValues,
    RandomPairs,
    UniformInputs,
    UniformPairs,
)
from sweeps.folder import Folder
from sweeps.watch import collect_command


DRAWS = 40_000
TASKS = {
    "published": LinearRegression(),
    "gaussian": LinearRegression(3, 5, GaussianInputs(0.7)),
    "noise": LinearRegression(4, 12, UniformInputs(2.0), noise=0.5),
    "correlated": LinearRegression(
        3, 5, CorrelatedInputs(((1.0, 0.4, 0.0), (0.4, 0.5, -0.1), (0.0, -0.1, 0.3)))
    ),
    "scaled": LinearRegression(3, 5, noise=0.1, input_scale=1.5, weight_scale=2.0),
}

KNOWN = {
    UniformInputs: lambda inputs: stats.uniform(-inputs.bound, 2 * inputs.bound),
    GaussianInputs: lambda inputs: stats.norm(scale=inputs.std),
}


@dataclasses.dataclass(frozen=True)
class WorstPoint(TaskConfig):
    """Settings whose task is another object; only the settings have summaries."""

    summaries: ClassVar[Mapping] = {"worst": lambda rows: rows["loss"].max()}

    def build(self, data):
        return Silent()


class Silent:
    """The task that `WorstPoint` builds; it has no summaries."""

    own = LinearRegression()
    interface, inputs, sample = own.interface, own.inputs, own.sample
    forward, metrics = own.forward, own.metrics


each_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


def draw(task, count=DRAWS, seed=0):
    """Examples as NumPy arrays: points, values and weights."""
    drawn = jax.jit(lambda key: batch(task, count, key=key))(jax.random.key(seed))
    return tuple(np.asarray(x, np.float64) for x in (drawn.x, drawn.y, drawn.weights))


@each_task
def test_what_is_drawn(task):
    x, y, weights = draw(task)
    assert x.shape == (DRAWS, task.context + 1, task.dim)
    noise = y - np.einsum("tnd,td->tn", x, weights)
    np.testing.assert_allclose(noise[:, -1], 0, atol=1e-5)
    np.testing.assert_allclose(noise[:, :-1].std(), task.noise, rtol=0.01, atol=1e-5)
    inputs, scale = task.input_distribution, task.input_scale
    covariance = np.eye(task.dim)
    if isinstance(inputs, CorrelatedInputs):
        covariance = np.array(inputs.covariance)
    else:
        known = KNOWN[type(inputs)](inputs)
        covariance = scale**2 * known.var() * covariance
        wanted = scale**4 * known.moment(4)
        np.testing.assert_allclose((x**4).mean(), wanted, rtol=0.02)
    found = np.einsum("tni,tnj->ij", x, x) / (DRAWS * x.shape[1])
    close = 6 * covariance.max() / np.sqrt(DRAWS * x.shape[1])
    np.testing.assert_allclose(found, covariance, atol=close)
    # All are independent of each other.
    x = x @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    flat = np.concatenate([x.reshape(DRAWS, -1), weights, noise[:, :-1]], 1)
    parts = flat[:, flat.std(0) > 1e-4]
    off = np.corrcoef(parts.T) - np.eye(parts.shape[1])
    assert np.abs(off).max() < 6 / np.sqrt(DRAWS)
    np.testing.assert_allclose(weights.std(), task.weight_scale, rtol=0.01)


@pytest.mark.parametrize("x64", [False, True])
def test_numbers_have_the_bits_of_jax(x64):
    with jax.enable_x64(x64):
        keys = jax.random.split(jax.random.key(3), 40)
        pairs = [
            (functools.partial(of.uniform, minval=-0.7, maxval=0.9), of.normal)
            for of in (icl.random, jax.random)
        ]
        for shape in ((11, 10), (7,)):
            for ours, theirs in zip(*pairs, strict=True):
                found, wanted = (
                    jax.jit(jax.vmap(lambda key, f=f, s=shape: f(key, shape=s)))(keys)
                    for f in (ours, theirs)
                )
                assert found.dtype == wanted.dtype
                np.testing.assert_array_equal(found, wanted)
        for num in (2, 3, 1000):
            both = (of.split(keys[0], num) for of in (icl.random, jax.random))
            np.testing.assert_array_equal(*map(jax.random.key_data, both))


@each_task
def test_the_best_step_in_closed_form(task):
    rate, loss = one_step(task)
    x, y, _ = draw(task)

    def at(rate):
        return 0.5 * (oracles.descended(x, y, rate) - y[:, -1]) ** 2

    found = at(rate)
    assert abs(found.mean() - loss) < 5 * found.std() / np.sqrt(DRAWS)
    assert at(0.8 * rate).mean() > found.mean() < at(1.2 * rate).mean()


@pytest.mark.parametrize(
    ("changes", "least"),
    [
        ({}, 0.20623),
        ({"input_distribution": UniformInputs(1.0)}, 0.82492),
        ({"pair_noise": NoisyValues(0.25, 0.5)}, 0.2139),
        ({"pair_noise": NoisyValues(0.5, 0.5)}, 0.2210),
        ({"pair_noise": RandomPairs(0.25)}, 0.2740),
        ({"pair_noise": RandomPairs(0.5)}, 0.3486),
    ],
    ids=["half", "one", "noise-0.25", "noise-0.5", "pairs-0.25", "pairs-0.5"],
)
def test_the_published_optimum(changes, least):
    """Numbers that an audit computed independently; points in ±1/2, d = N = 10."""
    rate, loss = one_step(LinearRegression(**changes))
    assert loss == pytest.approx(least, abs=6e-5)
    if not changes:
        assert rate == pytest.approx(6.06, abs=0.005)


def test_the_best_step_with_noise_on_some_values():
    task = LinearRegression(4, 6, pair_noise=NoisyValues(0.25, 0.8))
    rate, loss = one_step(task)
    x, y, _ = draw(task)
    found = 0.5 * (oracles.descended(x, y, rate) - y[:, -1]) ** 2
    assert abs(found.mean() - loss) < 5 * found.std() / np.sqrt(DRAWS)
    assert loss > one_step(LinearRegression(4, 6))[1]
    other = LinearRegression(pair_noise=RandomPairs(0.1, UniformPairs()))
    with pytest.raises(ValueError, match="from FreshTeacher, got UniformPairs"):
        one_step(other)


def test_the_best_step_with_replaced_pairs():
    task = LinearRegression(4, 6, pair_noise=RandomPairs(0.3))
    rate, loss = one_step(task)
    x, y, _ = draw(task)
    for at in (rate, 0.7 * rate):
        found = 0.5 * (oracles.descended(x, y, at) - y[:, -1]) ** 2
        error = found.std() / np.sqrt(DRAWS)
        assert abs(found.mean() - one_step_loss(task, at)) < 5 * error
    assert loss == one_step_loss(task, rate)


def model(task, getkey, **settings):
    config = LinearSelfAttentionConfig(**settings)
    return config.build(task.interface, key=getkey())


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_layers_equal_the_papers_formula(layers, tied, getkey):
    task = TASKS["gaussian"]
    made = model(task, getkey, num_layers=layers, tied=tied, init_variance=1.0)
    x, y, _ = draw(task, 4)
    ours = np.asarray(jax.vmap(made)(jnp.asarray(x), jnp.asarray(y)))
    for k in range(4):
        tokens = np.concatenate([x[k], y[k][:, None]], 1)
        tokens[-1, -1] = 0
        for i in range(layers):
            attn = made.blocks[0 if tied else i].attn
            q, key, v, p = (
                np.asarray(layer.weight, np.float64)
                for layer in (attn.query, attn.key, attn.value, attn.output)
            )
            context = tokens[:-1]
            kernel = (tokens @ q.T) @ (context @ key.T).T
            tokens = tokens + kernel @ (context @ v.T) @ p.T
        np.testing.assert_allclose(ours[k], -tokens[-1, -1], rtol=2e-5, atol=1e-6)


@each_task
def test_one_layer_can_do_a_step_of_gradient_descent(task, getkey):
    """The construction of von Oswald et al. (2023), proposition 1."""
    rate, d = one_step(task)[0], task.dim
    points = jnp.diag(jnp.array([1.0] * d + [0.0]))
    values = jnp.zeros((d + 1, d + 1)).at[-1, -1].set(-1)
    new = points, points, values, jnp.eye(d + 1) * rate / task.context
    where = lambda m: [
        layer.weight
        for a in (block.attn for block in m.blocks)
        for layer in (a.query, a.key, a.value, a.output)
    ]
    made = eqx.tree_at(where, model(task, getkey), new)
    x, y, _ = draw(task, 64)
    found = jax.vmap(made)(jnp.asarray(x), jnp.asarray(y))
    np.testing.assert_allclose(
        found, oracles.descended(x, y, rate), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearRegression(dim=0), "dim must be"),
        (lambda: LinearRegression(noise=-1.0), "noise must be at least 0"),
        (lambda: UniformInputs(0.0), "bound must be positive"),
        (lambda: GaussianInputs(float("inf")), "std must be positive and finite"),
        (lambda: CorrelatedInputs(((1.0, 0.0),)), "square and symmetric"),
        (lambda: CorrelatedInputs(((1.0, 2.0), (1.0, 1.0))), "square and symmetric"),
        (lambda: CorrelatedInputs(((np.nan,),)), "square and symmetric"),
        (
            lambda: CorrelatedInputs(((1.0, 2.0), (2.0, 1.0))),
            "positive definite, got the eigenvalue -1",
        ),
        (
            lambda: LinearRegression(3, 4, CorrelatedInputs(((1.0,),))),
            "dim must be 1, the size of the covariance, got 3",
        ),
        (lambda: LinearRegression(queries=0), "queries must be a positive integer"),
        (lambda: LinearRegression(input_scale=0.0), "input_scale must be positive"),
        (lambda: LinearSelfAttentionConfig(0), "num_layers must be a positive integer"),
        (lambda: LinearSelfAttentionConfig(init_variance=0.0), "init_variance must"),
        (
            lambda: icl.Experiment(task=LinearRegression()).build(),
            "TransformerConfig reads exemplars",
        ),
    ],
)
def test_bad_settings(make, message, unchecked):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_sweep_over_learning_rates_is_one_program(tmp_path):
    folder, table = tmp_path / "rates", tmp_path / "rates.csv"
    command = [sys.executable, "-m", "sweeps", rates.__file__, "--scale", "smoke"]
    subprocess.run([*command, "--out", str(folder)], check=True, capture_output=True)
    names = tuple(f"rate-{rate}" for rate in rates.RATES)
    jobs = [job.runs for job in Folder(folder).jobs.values()]
    # Two cores train two members at once, and then the third.
    assert sum(jobs, ()) == names
    assert len(jobs[0]) > 1

    assert collect_command([str(folder), "--out", str(table)]) == 0
    with open(table) as file:
        rows = [*csv.DictReader(file)]
    swept = {row["run"]: float(row["optimizer.learning_rate.rate"]) for row in rows}
    assert swept == dict(zip(names, rates.RATES, strict=True))
    ends = (row for row in rows if row["sequences"] == "6400")
    last = {row["run"]: float(row["loss"]) for row in ends}
    assert last[names[0]] > last[names[1]]
    alone = icl.run_experiment(rates.at_rate(rates.RATES[1]), tmp_path / "alone").log
    loss = alone.evaluations["train"]["loss"][-1].mean()
    assert last[names[1]] == pytest.approx(loss, rel=1e-4)


# Summaries of a set


def test_the_config_says_how_rows_become_numbers(tmp_path, capsys):
    """Its task has no summaries, but loggers, `eval` and `ablate` use the config's."""

    logged = []
    logger = SimpleNamespace(log=lambda _, x: logged.append(x), close=lambda: None)
    experiment = dataclasses.replace(
        lsa(),
        task=WorstPoint(),
        training=Training(64, 32),
        evaluations={"held": TaskSet(8)},
    )
    log = icl.run_experiment(experiment, tmp_path / "run", logger=logger).log
    worst = log.evaluations["held"]["loss"][-1].max()
    assert any(x.get("eval/held/worst") == pytest.approx(worst) for x in logged)
    for command in (["eval"], ["ablate", "--out", str(tmp_path / "heads")]):
        with pytest.raises(SystemExit):
            cli.main([command[0], str(tmp_path / "run"), *command[1:]])
        assert f"{worst:.4f}" in capsys.readouterr().out
    trained = icl.load(tmp_path / "run")
    drawn = figures.metric(Subject(trained, "held", metric="worst")).drawn
    every = log.evaluations["held"]["loss"].max(1)
    np.testing.assert_allclose(np.ravel(drawn["mean"].values), every, rtol=1e-6)
    for asked in ({"by": "position"}, {"edits": ()}):
        with pytest.raises(Inapplicable, match="'worst' is of the set as a whole"):
            figures.metric(Subject(trained, "held", metric="worst", **asked))
