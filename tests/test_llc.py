"""The local learning coefficient against closed forms and Gaussians."""

import itertools
import math
import warnings

import equinox as eqx
import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from commands import call
from jax.flatten_util import ravel_pytree

import icl
import opto
from icl import measures
from icl.measures import RMSpropSGLD, sampled_losses, SGLD
from icl.models.regression_transformer import RegressionTransformerConfig
from icl.tasks.regression import GaussianInputs, LinearRegression, RegressionExample


def chains(loss, centre, *, count=8, burn_in=1000, **settings):
    """The estimate of each chain: nβ (E[L] - L(centre))."""
    keys = jax.random.split(jax.random.key(0), count)
    of = lambda key: sampled_losses(loss, centre, key=key, **settings)
    losses = np.asarray(jax.jit(jax.vmap(of))(keys), np.float64)
    start = float(loss(centre, keys[0]))
    return settings["scale"] * (losses[:, burn_in:].mean(1) - start)


def check(estimates, wanted, within=0.05):
    """Near the wanted number, and within two standard errors and that margin."""
    error = estimates.std(ddof=1) / math.sqrt(len(estimates))
    assert abs(estimates.mean() - wanted) < within * wanted + 2 * error
    assert error < within * wanted


@pytest.mark.parametrize("sampler", [SGLD(), RMSpropSGLD(0.999, 1.0)])
def test_powers(sampler):
    """½Σ|w|^p has the coefficient Σ1/p."""
    powers = jnp.array([2, 2, 4, 4, 6])
    loss = lambda w, key: 0.5 * jnp.sum(jnp.abs(w) ** powers)
    settings = dict(scale=10.0, localization=0.0, step_size=0.01, steps=40_000)
    found = chains(loss, jnp.zeros(5), count=16, sampler=sampler, **settings)
    check(found, sum(1 / p for p in (2, 2, 4, 4, 6)))


def test_a_quadratic_of_lower_rank():
    """r/2, and Σ a / 2(a + γ/nβ) where the localization counts."""
    rng = np.random.default_rng(0)
    q = np.linalg.qr(rng.normal(size=(9, 9)))[0]
    eigenvalues = np.array([4.0, 2, 1, 0.5, 0, 0, 0, 0, 0])
    matrix = jnp.asarray(q * eigenvalues @ q.T, jnp.float32)
    loss = lambda w, key: 0.5 * (w - 1) @ matrix @ (w - 1)
    given = dict(scale=1000.0, step_size=2e-5, steps=40_000)
    found = chains(loss, jnp.ones(9), localization=1.0, **given)
    check(found, (eigenvalues / (eigenvalues + 1e-3)).sum() / 2)
    found = chains(loss, jnp.ones(9), localization=1000.0, **given)
    check(found, (eigenvalues / (eigenvalues + 1)).sum() / 2)
    # Only some weights move: the block of these is what counts.
    moving = jnp.zeros(9).at[:3].set(1)
    found = chains(loss, jnp.ones(9), localization=1000.0, moving=moving, **given)
    block = np.linalg.eigvalsh(np.asarray(matrix)[:3, :3])
    check(found, (block / (block + 1)).sum() / 2)


def test_the_stationary_distribution_is_the_gaussian():
    """The variance of the weights is 1 / (nβ a + γ), up to the step's size."""
    a, gamma, scale = 3.0, 5.0, 20.0
    seen = lambda w, key: 0.5 * a * w[0] ** 2
    given = dict(scale=scale, localization=gamma, step_size=1e-3, steps=40_000)
    found = chains(seen, jnp.zeros(1), **given)
    variance = 1 / (scale * a + gamma)
    # The exact variance of the discrete chain, x ← (1 - εk/2) x + √ε ξ.
    k = scale * a + gamma
    discrete = 1e-3 / (1 - (1 - 1e-3 * k / 2) ** 2)
    assert discrete == pytest.approx(variance, rel=0.02)
    check(found, scale * 0.5 * a * discrete)


def deep_linear(widths, rank):
    """The coefficient of a deep linear network (Aoyagi 2024), by its closed form."""
    more = np.array(widths) - rank
    for size in range(1, len(more) + 1):
        for chosen in itertools.combinations(range(len(more)), size):
            inside = more[list(chosen)]
            outside = np.delete(more, chosen)
            layers = size - 1
            if layers == 0:
                continue
            fits = inside.sum() >= layers * inside.max()
            if fits and (not outside.size or inside.sum() < layers * outside.min()):
                total = inside.sum()
                a = total - (math.ceil(total / layers) - 1) * layers
                pairs = (total**2 - (inside**2).sum()) / 2
                return (
                    (rank * (widths[0] + widths[-1]) - rank**2) / 2
                    + a * (layers - a) / (4 * layers)
                    - layers * (layers - 1) / 4 * (total / layers) ** 2
                    + pairs / 2
                )
    raise AssertionError("no set of layers fits")


def test_the_closed_form_of_deep_linear_networks():
    assert deep_linear((1, 1, 1), 0) == pytest.approx(0.5)
    # Regular: all weights of the matrix count.
    assert deep_linear((3, 2), 2) == pytest.approx(3.0)


def test_a_deep_linear_network():
    widths, rank, rng = (4, 4, 4), 2, np.random.default_rng(0)
    u = np.linalg.qr(rng.normal(size=(4, 4)))[0][:, :rank]
    v = np.linalg.qr(rng.normal(size=(4, 4)))[0][:, :rank]
    target = jnp.asarray(u @ v.T, jnp.float32)
    first = jnp.zeros((4, 4)).at[:rank].set(v.T)
    second = jnp.zeros((4, 4)).at[:, :rank].set(u)
    centre = jnp.concatenate([first.ravel(), second.ravel()])

    def loss(w, key):
        one, two = w.reshape(2, 4, 4)
        return 0.5 * jnp.sum((two @ one - target) ** 2)

    settings = dict(scale=2e4, localization=1.0, step_size=2e-6, steps=100_000)
    found = chains(loss, centre, burn_in=20_000, **settings)
    wanted = deep_linear(widths, rank)
    check(found, wanted, within=0.08)


class Bowl(eqx.Module):
    """Predicts values as `w · x`: the loss is quadratic in the weights."""

    w: jax.Array

    def __call__(self, x, y, *, tap):
        return x[-4:] @ self.w


def test_half_the_effective_dimension_of_a_bowl():
    """Σ a / 2(a + γ/nβ) of the Hessian's eigenvalues, by the measures of both."""
    task = LinearRegression(6, 4, GaussianInputs(), queries=4)
    rng = np.random.default_rng(0)
    sizes = np.array([1.2, 1, 0.8, 0.5, 0.3, 0.2])
    x = (sizes * rng.normal(size=(256, 8, 6))).astype(np.float32)
    y = rng.normal(size=(256, 8)).astype(np.float32)
    w = np.linalg.lstsq(x[:, 4:].reshape(-1, 6), y[:, 4:].ravel())[0]
    model, zeros = Bowl(jnp.asarray(w)), jnp.zeros((256, 6))
    batch = RegressionExample(jnp.asarray(x), jnp.asarray(y), zeros, num_queries=4)
    scale = measures.llc_scale(batch)
    measure = measures.llc(4000, 1000, 16, 1e-3, 10.0, batch_size=64)
    found = np.asarray(jax.jit(lambda: measure.fn(model, task, batch, ()))())
    wanted = measures.effective_dimension(10.0 / scale, 6).fn(model, task, batch, ())
    check(found, float(wanted) / 2)


# devinterp 2.0.1: what `benchmarks/llc_torch.py numbers` printed.
DEVINTERP = {
    "sgld": {
        "losses": "0.0470116 0.0470057 0.0470002 0.0469949 0.0469899 0.0469851 "
        "0.0469804 0.0469759 0.0469716",
        "step_size": 5e-4,
        "mean": 1.39657,
        "error": 0.01738,
    },
    "rmsprop": {
        "losses": "0.0470116 0.0469603 0.0469300 0.0469193 0.0469512 0.0470736 "
        "0.0474511 0.0483948 0.0505294",
        "step_size": 2e-4,
        "mean": 1.52196,
        "error": 0.01184,
    },
}


@pytest.fixture(scope="module")
def small_regression():
    """The model and sequences of `benchmarks/llc_torch.py`, drawn by NumPy."""
    task = LinearRegression(2, 4, GaussianInputs(), queries=4)
    config = RegressionTransformerConfig(1, 8, 2)
    model = config.build(task.interface, key=jax.random.key(0))
    arrays, static = eqx.partition(model, eqx.is_inexact_array)
    flat, unflatten = ravel_pytree(arrays)
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
    model = eqx.combine(unflatten(jnp.asarray(draw(flat.size))), static)
    x, y, noise = draw(256, 8, 2), draw(256, 8), draw(256, 4)
    y[:, 4:] = np.asarray(jax.vmap(model)(x, y)) + 0.3 * noise
    x, y = jnp.asarray(x), jnp.asarray(y)
    return task, model, RegressionExample(x, y, jnp.zeros((256, 2)), num_queries=4)


@pytest.mark.parametrize("sampler", DEVINTERP)
def test_steps_are_those_of_devinterp(small_regression, sampler):
    """Without noise that counts, and with all sequences at each step."""
    task, model, batch = small_regression
    arrays, static = eqx.partition(model, eqx.is_inexact_array)
    flat, unflatten = ravel_pytree(arrays)

    def loss(flat, key):
        outputs = jax.vmap(eqx.combine(unflatten(flat), static))(batch.x, batch.y)
        return 0.5 * jnp.mean((outputs - batch.y[:, 4:]) ** 2)

    still = dict(scale=2e12, localization=4e12, step_size=1e-14, steps=9)
    kind = {"sgld": SGLD(), "rmsprop": RMSpropSGLD()}[sampler]
    key = jax.random.key(0)
    found = jax.jit(lambda: sampled_losses(loss, flat, key=key, sampler=kind, **still))
    wanted = [float(x) for x in DEVINTERP[sampler]["losses"].split()]
    np.testing.assert_allclose(found(), wanted, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", DEVINTERP)
def test_an_estimate_is_that_of_devinterp(small_regression, sampler):
    task, model, batch = small_regression
    theirs = DEVINTERP[sampler]
    measure = measures.llc(
        *(600, 0, 32, theirs["step_size"], 100.0), batch_size=64, sampler=sampler
    )
    found = np.asarray(jax.jit(lambda: measure.fn(model, task, batch, ()))())
    error = math.hypot(theirs["error"], found.std(ddof=1) / math.sqrt(32))
    assert abs(found.mean() - theirs["mean"]) < min(2 * error, 0.05 * found.mean())


# As a measure


@pytest.fixture(scope="module")
def trained(small_run):
    return icl.load(small_run)


SETTINGS = dict(draws=20, burn_in=5, chains=3, step_size=1e-6, batch_size=8)


def test_weights_that_stay_keep_the_loss(trained):
    """Whichever sequences a step draws: only the change of their loss counts."""
    measure = measures.llc_trace(20, 3, 1e-16, batch_size=4)
    (trace,) = icl.replay(trained, {"x": measure}, checkpoints=[-1])["x"]
    np.testing.assert_allclose(trace, trace[0, 0], rtol=1e-5)


def test_a_measure_at_every_checkpoint(trained):
    measure = measures.llc(**SETTINGS)
    trace = measures.llc_trace(25, 3, 1e-6, batch_size=8)
    found = icl.replay(trained, {"llc": measure, "trace": trace})
    assert found.axes == {"llc": "checkpoint chain", "trace": "checkpoint chain step"}
    assert found["llc"].shape == (len(trained.run.checkpoints), 3)
    assert found["trace"].shape == (len(trained.run.checkpoints), 3, 26)
    batch, task = trained.evaluations["train"], trained.task
    loss = measures.task_metric(task, "loss")
    whole = icl.replay(trained, {"loss": loss})["loss"]
    np.testing.assert_allclose(found["trace"][:, 0, 0], whole, rtol=1e-5)
    n = len(batch.labels)
    losses = found["trace"].astype(np.float64)
    wanted = n / math.log(n) * (losses[:, :, 6:].mean(2) - losses[:, :, 0])
    np.testing.assert_allclose(found["llc"], wanted, rtol=1e-3, atol=1e-3)
    # Other edits, other sets and other weights give other numbers.
    edits = [opto.Zero("blocks.0.attn.z")]
    others = [
        icl.replay(trained, {"llc": measure}, edits=edits)["llc"],
        icl.replay(trained, {"llc": measure}, data="heldout_labels")["llc"],
    ]
    for weights in ({"weights": "blocks.1.attn"}, {"heads": "0:1 1:0"}):
        part = measures.llc(**SETTINGS, **weights)
        others.append(icl.replay(trained, {"llc": part})["llc"])
    for other in others:
        assert not np.allclose(other, found["llc"])
    text = measures.parse("llc(draws=20, burn_in=5, chains=3, step_size=1e-06)")
    assert text.text == "llc(draws=20, burn_in=5, chains=3, step_size=1e-06)"


def test_weights_of_heads_that_do_not_matter(trained):
    """With a head at zero, its weights are free: the loss does not change."""
    measure = measures.llc(**SETTINGS, heads="1:1")
    zero = [opto.Zero("blocks.1.attn.z", head=1)]
    trace = measures.llc_trace(25, 3, 1e-6, batch_size=20, heads="1:1")
    found = icl.replay(trained, {"x": trace}, edits=zero)["x"]
    moved = icl.replay(trained, {"x": trace})["x"]
    free = measures.llc_trace(25, 3, 1e-12, batch_size=20, heads="1:1")
    still = icl.replay(trained, {"x": free})["x"]
    np.testing.assert_allclose(
        found, icl.replay(trained, {"x": free}, edits=zero)["x"], rtol=1e-5
    )
    assert not np.allclose(moved, still, rtol=1e-5)
    assert np.isfinite(icl.replay(trained, {"x": measure})["x"]).all()


def test_the_summary_warns():
    mean, error = measures.llc_summary(np.array([[2.0, 2.1, 2.2], [3.0, 3.0, 3.0]]))
    np.testing.assert_allclose(mean, [2.1, 3])
    np.testing.assert_allclose(error, [0.1 / math.sqrt(3), 0], atol=1e-12)
    with pytest.warns(UserWarning, match="1 of 2 are not above 0"):
        measures.llc_summary(np.array([[-1.0, 0.5], [2, 2]]))
    with pytest.warns(UserWarning, match="the chains of 1 of 2 disagree"):
        measures.llc_summary(np.array([[1.0, 5.0], [2, 2]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measures.llc_summary(np.array([[2.0, 2.1]]))


REFUSED = {
    "draws": dict(draws=0),
    "burn_in": dict(burn_in=-1),
    "step_size": dict(step_size=0.0),
    "temperature": dict(temperature=-1.0),
    "sampler is one of sgld, rmsprop, got 'hmc'": dict(sampler="hmc"),
    "weights: the model has none at 'block.1'": dict(weights="block.1"),
    "heads: there is no head 1:2": dict(heads="1:2"),
    "heads is written as '1:3 1:7', got '3'": dict(heads="3"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message, trained):
    with pytest.raises(ValueError, match=message):
        icl.replay(trained, {"x": measures.llc(**{**SETTINGS, **REFUSED[message]})})


# What is read from curves


def test_stages_of_a_curve_that_was_drawn_by_hand():
    at = np.concatenate([[0], np.geomspace(10, 1e5, 81)])
    log = np.log10(np.maximum(at, 1))
    values = np.interp(log, [1, 2, 3, 4, 5], [4.0, 4, 1, 1, 2])
    found = measures.stages(at, values, smoothing=0.0)
    assert [stage.kind for stage in found] == ["plateau", "fall", "plateau", "rise"]
    ends = [stage.end for stage in found]
    np.testing.assert_allclose(ends, [100, 1000, 10_000, 100_000], rtol=1e-6)
    np.testing.assert_allclose([x.change for x in found], [0, -3, 0, 1], atol=1e-9)
    with pytest.raises(ValueError, match="three or more checkpoints"):
        measures.stages(np.arange(3), np.zeros(3))


def test_components_of_a_planted_path():
    """A path in a plane of 30 outputs, which turns once in its second component."""
    rng = np.random.default_rng(0)
    time = np.linspace(0, 1, 41)
    plane = np.linalg.qr(rng.normal(size=(30, 2)))[0]
    path = np.stack([5 * time, -4 * (time - 0.5) ** 2], 1)
    outputs = (path @ plane.T).reshape(41, 5, 6) + 1
    found = measures.outputs_pca(outputs, 2)
    assert found.shares.sum() == pytest.approx(1)
    centred = path - path.mean(0)
    variance = (centred**2).sum(0)
    np.testing.assert_allclose(found.shares, variance / variance.sum(), rtol=1e-6)
    np.testing.assert_allclose(found.scores[:, 0], centred[:, 0], atol=1e-6)
    assert [len(x) for x in found.turning] == [0, 1]
    assert found.turning[1][0] == 20
    with pytest.raises(ValueError, match="components must be at most 30"):
        measures.outputs_pca(outputs, 31)


def test_outputs_are_those_of_the_model(trained):
    found = icl.replay(trained, {"x": measures.model_outputs()})["x"]
    batch = trained.evaluations["train"]
    logits, _ = opto.run(trained.model, *trained.task.inputs(batch))
    np.testing.assert_allclose(found[-1], logits[:, -1], atol=1e-5)


def test_a_scan_draws_the_estimates(trained, tmp_path, capsys):
    arguments = ["--step-size", "1e-7", "1e-6", "--localization", "10"]
    given = ["--steps", "6", "--chains", "2", "--out", tmp_path]
    status, out, _ = call(
        capsys, "llc-scan", trained.run.path, *arguments, *given, "--on", "train"
    )
    assert (status, out.strip()) == (0, f"{tmp_path}/llc-scan.png")
    trace = measures.llc_trace(6, 2, 1e-6, 10.0)
    losses = icl.replay(trained, {"x": trace}, checkpoints=[-1])["x"][0]
    with h5py.File(tmp_path / "llc-scan.h5") as drawn:
        shown = drawn["ε=1e-06, γ=10/chain 1/values"][...]
    scale = 20 / math.log(20)
    wanted = scale * (losses[1, 1:].mean() - losses[1, 0])
    assert shown[-1] == pytest.approx(wanted, rel=1e-3, abs=1e-5)
