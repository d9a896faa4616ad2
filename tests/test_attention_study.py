"""The study of kinds of attention: its settings, figures, claims and programs."""

import dataclasses
import logging
from pathlib import Path
from types import SimpleNamespace

import equinox as eqx
import jax
import numpy as np
import pytest

from icl.baselines.functions import Averaging
from icl.models import RelaAttention
from icl.models.gpt2 import GPT2Config
from icl.replaying.by_context import ErrorCurves
from icl.tasks.functions import InContextFunction
from sweeps.analysis import Estimate
from sweeps.figures import Runs, verdict_of_row
from sweeps.studies.attention import analysis, figures
from sweeps.studies.attention.figures import _curves, _shifts
from sweeps.studies.attention.runs import kinds


SMALL = InContextFunction(dim=5, points=11)
FIGURES = {figure.name.removeprefix("attention/"): figure for figure in figures.FIGURES}


SWEEPS = {sweep.name: sweep for sweep in _shifts.SWEEPS}


@pytest.mark.parametrize("task", [SMALL, InContextFunction()])
@pytest.mark.parametrize("sweep", SWEEPS.values(), ids=SWEEPS)
def test_the_settings_of_a_figure_are_in_the_sweeps(sweep, task):
    every = analysis.sweeps_of(task)
    assert sum(name.startswith(sweep.settings) for name in every) >= 2
    shown = [every[setting(task)] for setting in sweep.shown.values()]
    # With the same draws, each differs from the standard prompts.
    assert all(each != task for each in shown)


def test_noise_and_bias_are_as_large_beside_the_values_as_published():
    """A perfect learner's error ÷ mean square is that of 20 components."""
    every = analysis.sweeps_of(SMALL)
    noisy, affine = every["noise=1.1"].function, every["bias=1.1"].function
    assert noisy.noise_std**2 / 5 == pytest.approx(1.1**2 / 20)
    assert affine.bias_std**2 / 5 == pytest.approx(1.1**2 / 20)


def test_windows_reach_as_far_as_the_published_ones():
    # Pairs in reach of all layers ÷ components, and whether the whole prompt is.
    published = {"narrow": 12 * (5 - 1) // 2 / 20, "wide": 12 * (15 - 1) // 2 / 20}
    assert published["narrow"] == 3 * (kinds("small")["narrow"]["mask"].size - 1) / 10
    assert 3 * (kinds("small")["wide"]["mask"].size - 1) >= 21
    assert published["wide"] * 20 >= 41
    for scale in ("small", "paper"):
        assert all(x % 2 == 0 for x in kinds(scale)["global"]["mask"].global_tokens)


def test_all_settings_of_a_kind_are_one_program(caplog):
    """What the compiler is asked for, not how often a model is traced."""
    task = InContextFunction(dim=3, points=5)
    names = ("standard", "opposite=3", "skewed=2.9", "noise=1.1")
    sets = analysis.prompts(task, names, 32)
    shifts = [each.shift for each in sets.tasks.values()]
    of_query = [
        shift is not None and shift.queries(5, 3) is not None for shift in shifts
    ]
    assert of_query == [False, True, False, False]
    tiny = GPT2Config(num_layers=1, d_model=4, num_heads=2, max_length=10)
    learner = lambda: analysis.errors(Averaging(), sets)
    assert compiled(caplog, learner) == ["each_position"]
    for changes in ({}, {"attention": RelaAttention()}):
        build = dataclasses.replace(tiny, **changes).build
        for seed in (0, 1):
            model = eqx.filter_jit(build)(task.interface, key=jax.random.key(seed))
            learner = lambda model=model: analysis.errors(model, sets)
            # A checkpoint more needs no program.
            assert compiled(caplog, learner) == ["each_position"] * (seed == 0)


def compiled(caplog, run):
    """The names of the programs that are compiled, of those of the evaluation."""
    caplog.clear()
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        run()
    texts = [each.getMessage() for each in caplog.records]
    return [
        name
        for text in texts
        for name in ("each_position", "one_pass")
        if text.startswith("Compiling") and name in text
    ]


def curves_of(*errors):
    """Curves of 40 prompts around some mean errors `[set][position]`."""
    rng = np.random.default_rng(3)
    means = np.array(errors, float)
    rows = means[:, None] * rng.uniform(0.9, 1.1, (1, 40, 1))
    rows *= means[:, None] / rows.mean(1, keepdims=True)
    return ErrorCurves(
        tuple(map(str, range(len(means)))), np.arange(means.shape[1]), rows
    )


def test_intervals_of_seeds_hold_those_of_each():
    low, high = curves_of([1.0, 0.5]), curves_of([3.0, 0.1])
    mean, least, largest = analysis.mean_of_seeds([low, high])
    np.testing.assert_allclose(mean, [[2.0, 0.3]], rtol=1e-9)
    np.testing.assert_allclose(
        least, [[low.interval().low[0, 0], high.interval().low[0, 1]]]
    )
    np.testing.assert_allclose(
        largest, [[high.interval().high[0, 0], low.interval().high[0, 1]]]
    )


def test_the_loss_of_batches_is_by_component(monkeypatch):
    # 320 steps of 2 sequences: the loss is that of predicting 0, which grows with the
    # components in use.
    step = np.arange(320)
    dims = np.where(step < 100, 2, 5)
    log = {"step": step, "loss": 1.0 * dims, "n_dims": dims}
    run = SimpleNamespace(
        experiment=SimpleNamespace(training=SimpleNamespace(batch_size=2))
    )
    monkeypatch.setattr(analysis.icl, "load", lambda folder: run)
    monkeypatch.setattr(analysis, "training_log", lambda trained, every: dict(log))
    found = analysis.batch_losses(Path("run"))
    np.testing.assert_array_equal(found.losses, np.ones(160))
    np.testing.assert_array_equal(found.sequences, 4 * np.arange(160) + 1)


# Published numbers, by kind: standard, query × 2.1, orthant, skewed 2.9, noise 1.1.
PUBLISHED = {
    "softmax": (0.035, 1.85, 0.19, 18.0, 3.10),
    "multi-query": (0.041, 1.06, 0.35, 25.6, 3.68),
    "rela": (0.158, 1.60, 2.13, 4.0, 3.19),
    "favor-published": (0.083, 1.95, 4.47, 9.8, 3.03),
    "rebased-published": (0.088, 5.72, 6.12, 6.2, 3.52),
}
RUNS = Runs({kind: (Path(kind),) for kind in PUBLISHED}, (10,))


def least_squares_with_noise(dim, pairs, noise):
    """The error of least squares ÷ the mean square of the values, simulated.

    The values are divided by their standard deviation and multiplied with √d.
    """
    rng = np.random.default_rng(0)
    prompts = 40_000
    xs = rng.standard_normal((prompts, pairs + 1, dim))
    ys = np.einsum("npd,nd->np", xs, rng.standard_normal((prompts, dim)))
    ys += noise * rng.standard_normal(ys.shape)
    ys *= np.sqrt(dim) / ys.std()
    context = xs[:, :-1]
    square = np.einsum("npd,npe->nde", context, context)
    products = np.einsum("npd,np->nd", context, ys[:, :-1])
    weights = np.linalg.solve(square, products[..., None])[..., 0]
    return np.mean((np.sum(xs[:, -1] * weights, 1) - ys[:, -1]) ** 2) / dim


@pytest.mark.parametrize(
    ("task", "noise"), [(InContextFunction(), 1.1), (SMALL, 1.1 * np.sqrt(5 / 20))]
)
def test_the_exact_error_of_least_squares_with_noise(task, noise):
    wanted = least_squares_with_noise(task.dim, task.points - 1, noise)
    assert analysis.exact_noisy_error(task, 1.1) == pytest.approx(wanted, rel=0.03)
    if task is SMALL:
        assert analysis.exact_noisy_error(task, 1.1) == pytest.approx(0.128, abs=5e-4)


def agrees(figure, measured, rel=1e-9):
    """Whether each row with a published number has that number."""
    for name, row in figure.rows.items():
        if not np.isnan(row.target):
            (value,) = measured.values[name]
            assert value == pytest.approx(row.target, rel=rel), name
            assert verdict_of_row(row, Estimate.of([value])) == "holds"
    numbers = {name: float(x[0]) for name, x in measured.values.items()}
    rows = dict.fromkeys(figure.rows, np.nan) | numbers
    return [claim.holds(rows, figure.targets) for claim in figure.claims]


def test_the_figure_of_curves_has_the_published_numbers(monkeypatch):
    def by_context(of, task):
        errors = np.geomspace(1, 1e-3, 41)
        if isinstance(of, Path):
            errors[20], errors[-1] = 0.02, PUBLISHED[of.name][0] / 20
        return curves_of(errors)

    monkeypatch.setattr(_curves, "prompt_task", lambda folder: InContextFunction())
    monkeypatch.setattr(_curves, "by_context", by_context)
    found = FIGURES["curves"].measure(RUNS)
    assert agrees(FIGURES["curves"], found) == [True] * len(FIGURES["curves"].claims)
    errors = np.geomspace(1, 1e-3, 41)[1:]
    ours = errors.sum() - errors[19] - errors[-1] + 0.02 + 0.035 / 20
    ratio = found.values["softmax: ÷ least squares"]
    np.testing.assert_allclose(ratio, ours / errors.sum(), rtol=1e-9)
    assert "softmax/low" in found.figure.drawn


@pytest.mark.parametrize(
    ("name", "column"),
    [("query-scale", 1), ("constrained", 2), ("skew", 3), ("noise", 4)],
)
def test_the_figure_of_a_shift_has_the_published_numbers(monkeypatch, name, column):
    task, sweep = InContextFunction(), SWEEPS[name]
    tasks = analysis.sweeps_of(task)
    (shown,) = (setting(task) for setting in sweep.shown.values())

    def errors(path, names):
        # Errors as published, divided by that of predicting 0.
        standard = PUBLISHED[path.name][0] / 20
        other = PUBLISHED[path.name][column] / tasks[shown].mean_square
        by_name = {"standard": standard, shown: other}
        return curves_of(*([by_name.get(each, 0.5)] for each in names))

    least = lambda task, names: dict.fromkeys(
        analysis.BASELINES, curves_of(*([0.1] for _ in names))
    )
    monkeypatch.setattr(_shifts, "prompt_task", lambda folder: task)
    monkeypatch.setattr(_shifts, "robustness", errors)
    monkeypatch.setattr(_shifts, "baselines", least)
    figure = FIGURES[name]
    found = figure.measure(RUNS)
    assert agrees(figure, found) == [True] * len(figure.claims)
    drawn = found.figure.drawn["rela"]
    (x,) = drawn.axes.values()
    assert np.all(np.diff(x) > 0)


def test_the_figure_of_losses_says_when_each_is_half(monkeypatch):
    ends = {"softmax": 1000, "multi-query": 1200, "wide window": 4000}

    def losses(folder):
        seen = np.arange(0, 5000, 100.0)
        falling = 1 - seen / (2 * ends[folder.name])
        return analysis.BatchLosses(seen, falling)

    monkeypatch.setattr(_curves, "batch_losses", losses)
    runs = Runs({kind: (Path(kind),) for kind in ends}, (10,))
    found = FIGURES["loss"].measure(runs)
    for kind, end in ends.items():
        np.testing.assert_allclose(found.values[f"{kind}: half"], [end])
    assert agrees(FIGURES["loss"], found) == [True, True]


def test_every_run_is_in_a_panel():
    drawn = [kind for panel in _curves.PANELS.values() for kind in panel]
    assert sorted(drawn) == sorted(FIGURES["loss"].runs)
    for scale in ("small", "paper"):
        assert len(kinds(scale)) == len(drawn)
