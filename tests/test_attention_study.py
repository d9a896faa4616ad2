"""The study of kinds of attention: its settings, figures, claims and programs."""

import dataclasses
import logging
from pathlib import Path
from types import SimpleNamespace

import equinox as eqx
import jax
import numpy as np
import pytest

from icl import plots
from icl.baselines.functions import Averaging
from icl.models import RelaAttention
from icl.models.gpt2 import GPT2Config
from icl.replaying.by_context import ErrorCurves
from icl.tasks.functions import InContextFunction
from sweeps.analysis import Estimate
from sweeps.figures import Runs, verdict_of_row
from sweeps.studies.attention import analysis, figures
from sweeps.studies.attention.runs import kinds


SMALL = InContextFunction(dim=5, points=11)
CURVES, SHIFTS, LOSS = figures.FIGURES


@pytest.mark.parametrize(
    "task", [SMALL, InContextFunction(), InContextFunction(dim=2, points=4)]
)
def test_the_settings_of_the_figure_are_in_the_sweeps(task):
    every = analysis.sweeps_of(task)
    shown = [every[name] for name in analysis.shown_settings(task).values()]
    assert len({*shown}) == len(shown) == 14
    # With the same draws, each differs from the standard prompts.
    assert sum(each == task for each in shown) == 1


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
    log = {"step": step, "loss": 1.0 * dims, "n_points": dims + 3, "n_dims": dims}
    run = SimpleNamespace(
        experiment=SimpleNamespace(training=SimpleNamespace(batch_size=2))
    )
    monkeypatch.setattr(analysis.icl, "load", lambda folder: run)
    monkeypatch.setattr(analysis, "training_log", lambda trained, every: dict(log))
    found = analysis.batch_losses(Path("run"))
    np.testing.assert_array_equal(found.losses, np.ones(160))
    np.testing.assert_array_equal(found.changes, [200])
    np.testing.assert_array_equal(found.sequences, 4 * np.arange(160) + 1)


# Published numbers, by kind: standard, query × 2.1, orthant, skewed 2.9, noise 1.1.
PUBLISHED = {
    "softmax": (0.035, 1.85, 0.19, 18.0, 3.10),
    "multi-query": (0.041, 1.06, 0.35, 25.6, 3.68),
    "rela": (0.158, 1.60, 2.13, 4.0, 3.19),
    "favor-published": (0.083, 1.95, 4.47, 9.8, 3.03),
    "rebased-published": (0.088, 5.72, 6.12, 6.2, 3.52),
    "wide window": (5.33, 19.6, 6.5, 16.6, 8.5),
    "narrow window": (17.3, 70.0, 16.0, 7.6, 19.9),
}
RUNS = Runs({kind: (Path(kind),) for kind in PUBLISHED}, (10,))
# Garg et al., whose errors are divided by 20 only: softmax at scaled points.
THIRD, THREE, SUBSPACE = 0.30, 0.58, 0.00057


def least_squares_with_noise():
    """The error ÷ 20 of least squares with noise 1.1 after 40 pairs of 20 components.

    The values are divided by their standard deviation and multiplied with √20.
    """
    rng = np.random.default_rng(0)
    prompts, dim, noise = 20_000, 20, 1.1
    xs = rng.standard_normal((prompts, 41, dim))
    ys = np.einsum("npd,nd->np", xs, rng.standard_normal((prompts, dim)))
    ys += noise * rng.standard_normal(ys.shape)
    ys *= np.sqrt(dim) / ys.std()
    context = xs[:, :-1]
    square = np.einsum("npd,npe->nde", context, context)
    products = np.einsum("npd,np->nd", context, ys[:, :-1])
    weights = np.linalg.solve(square, products[..., None])[..., 0]
    return np.mean((np.sum(xs[:, -1] * weights, 1) - ys[:, -1]) ** 2) / dim


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

    monkeypatch.setattr(figures, "prompt_task", lambda folder: InContextFunction())
    monkeypatch.setattr(figures, "by_context", by_context)
    found = CURVES.measure(RUNS)
    assert agrees(CURVES, found) == [True] * len(CURVES.claims)
    errors = np.geomspace(1, 1e-3, 41)[1:]
    ours = errors.sum() - errors[19] - errors[-1] + 0.02 + 0.035 / 20
    ratio = found.values["softmax: ÷ least squares"]
    np.testing.assert_allclose(ratio, ours / errors.sum(), rtol=1e-9)
    assert "softmax/softmax/low" in found.figure.drawn


def test_the_figure_of_shifts_has_the_published_numbers(monkeypatch):
    task = InContextFunction()
    settings = [*analysis.shown_settings(task)]

    def errors(of):
        _, scaled, orthant, skewed, noise = PUBLISHED[of]
        by_name = {"query × 2.1": scaled, "orthant": orthant}
        by_name |= {"skewed 2.9": skewed, "noise 1.1": noise}
        by_name |= {"points × ⅓": 20 * THIRD, "points × 3": 20 * THREE}
        by_name |= {"half subspace": 20 * SUBSPACE}
        return curves_of(*([by_name.get(name, 1.0) / zeros[name]] for name in settings))

    tasks = analysis.sweeps_of(task)
    shown = analysis.shown_settings(task)
    # The error of predicting 0, by which ours are divided.
    zeros = {name: tasks[setting].mean_square for name, setting in shown.items()}
    exact = least_squares_with_noise()
    least = curves_of(*([exact if name == "noise 1.1" else 1e-9] for name in settings))
    monkeypatch.setattr(figures, "prompt_task", lambda folder: task)
    monkeypatch.setattr(figures, "robustness", lambda path, names: errors(path.name))
    monkeypatch.setattr(figures, "baselines", lambda *_: {"least squares": least})
    found = SHIFTS.measure(RUNS)
    # The simulated error is exact to about 1 %.
    assert agrees(SHIFTS, found, rel=0.04) == [True] * len(SHIFTS.claims)
    (drawn,) = found.figure.drawn.values()
    assert [*drawn.axes["row"]] == [*PUBLISHED, "least squares"]
    assert drawn.values[1, settings.index("orthant")] == pytest.approx(0.35 / 20)


def test_the_figure_of_losses_says_when_each_is_half(monkeypatch):
    ends = {"softmax": 1000, "multi-query": 1200, "wide window": 4000}

    def losses(folder):
        seen = np.arange(0, 5000, 100.0)
        falling = 1 - seen / (2 * ends[folder.name])
        return analysis.BatchLosses(seen, falling, np.array([500.0, 900.0]))

    monkeypatch.setattr(figures, "batch_losses", losses)
    runs = Runs({kind: (Path(kind),) for kind in ends}, (10,))
    found = LOSS.measure(runs)
    for kind, end in ends.items():
        np.testing.assert_allclose(found.values[f"{kind}: half"], [end])
    assert agrees(LOSS, found) == [True, True]
    np.testing.assert_array_equal(found.figure.drawn["changes"].values, [500, 900])
    assert [*found.figure.drawn["mean"].axes["kind"]] == [*ends]


def test_every_run_is_in_a_panel():
    drawn = [kind for panel in figures._PANELS.values() for kind in panel]
    assert sorted(drawn) == sorted(CURVES.runs)
    for scale in ("small", "paper"):
        assert len(kinds(scale)) == len(drawn)


def test_a_map_says_what_lies_beyond_its_colours():
    values = np.array([[1e-6, 0.0123], [np.nan, 34.5]])
    figure = plots.log_map(values, ["a", "b"], ["c", "d"], label="error")
    (drawn,) = figure.drawn.values()
    np.testing.assert_array_equal(drawn.values, values)
    assert [text.get_text() for text in figure.axes[0].texts] == ["0", ".012", "34"]
    assert len(figure.axes[0].patches) == 1  # The cell without a number.
    with pytest.raises(ValueError, match=r"axes have lengths \[row=1, col"):
        plots.log_map(values, ["a"], ["c", "d"], label="error")
