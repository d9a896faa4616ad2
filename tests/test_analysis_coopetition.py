"""The analyses in the coopetition notebooks, against NumPy and runs by hand."""

import dataclasses
import math
import shutil

import jax
import numpy as np
import pytest
from scipy import optimize

import icl
import opto
from icl import plots
from icl.data import LowRankClasses
from icl.measures import induction_strength, Measure
from icl.presets.coopetition import coopetition
from icl.training.schedules import Every, Exactly
from sweeps.analysis import begun, latest_run, logged_curve, passage
from sweeps.studies.coopetition.analysis import (
    attention_differences,
    lower_layer_ablations,
    without_way_past,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a few steps with two small layers."""
    path = tmp_path_factory.mktemp("coopetition") / "run"
    icl.run_experiment(_experiment(), path)
    return path


def _experiment():
    base = coopetition(LowRankClasses(8, 2, dim=8), classes=8, exemplars=2)
    train = dataclasses.replace(base.evaluations["flip"], size=16)
    return dataclasses.replace(
        base,
        model=dataclasses.replace(base.model, d_model=16, num_heads=4),
        training=icl.Training(
            64, evaluate_at=Every(32), checkpoint_at=Exactly((32, 64)), batch_size=16
        ),
        evaluations={"flip": train},
    )


# When a curve rises and falls


def test_gone_at_is_the_last_crossing_of_the_interpolated_curve():
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = np.cumsum(rng.integers(1, 50, 12)) * 1000
        y = np.append(rng.uniform(size=11), 0.1)
        y[3] = 0.9
        found = passage(x, y, 0.5)
        last = max(k for k in range(12) if y[k] >= 0.5)
        below = lambda at, x=x, y=y: np.interp(at, x, y) - 0.5
        assert found.gone_at == pytest.approx(
            optimize.brentq(below, x[last], x[last + 1])
        )
        assert (found.peak, found.peak_at) == (y.max(), x[y.argmax()])
        assert found.final == 0.1


def test_a_curve_that_never_was_above_or_still_is_does_not_go():
    x = np.arange(4) * 10
    assert math.isnan(passage(x, np.array([0.1, 0.2, 0.4, 0.3])).gone_at)
    assert passage(x, np.array([0.1, 0.7, 0.4, 0.6])).gone_at == math.inf
    assert all(map(math.isnan, dataclasses.astuple(passage(x[:0], np.zeros(0)))))


def test_chance_before_training_is_no_peak():
    found = passage(np.array([0, 10, 20]), np.array([0.52, 0.4, 0.1]))
    assert (found.peak, found.peak_at, found.final) == (0.4, 10, 0.1)
    assert math.isnan(found.gone_at)


def test_a_curve_that_comes_and_goes_by_hand():
    x = np.arange(0.0, 11.0)
    y = np.array([0.9, 0.0, 0.4, 0.8, 0.9, 0.7, 0.6, 0.2, 0.1, 0.1, 0.0])
    # 0.5 is a quarter of the way from 2 to 3 and from 6 to 7; 0 is before training.
    found = passage(x, y)
    assert (found.came_at, found.peak_at, found.gone_at) == pytest.approx(
        (2.25, 4, 6.25)
    )
    assert passage(x, y / 2).came_at == math.inf
    assert math.isnan(passage(x, y + 1).came_at)


# How runs are made, and how they train


def test_curves_are_of_runs_as_far_as_they_are(run, tmp_path):
    events, values = logged_curve(run, "accuracy", data="flip")
    rows = icl.Run(run).log.evaluations["flip"]["accuracy"]
    assert events.tolist() == [0, 32, 64]
    wanted = [row.astype(np.float64).mean() for row in rows]
    np.testing.assert_allclose(values, wanted)
    for missing in ({"data": "absent"}, {"metric": "absent", "data": "flip"}):
        assert [len(x) for x in logged_curve(run, **missing)] == [0, 0]
    assert [len(x) for x in logged_curve(tmp_path)] == [0, 0]


def test_begun_are_runs_with_a_log_and_the_latest_is_the_finished_one(run, tmp_path):
    for name in ("a-1", "a-2", "b", "a-empty"):
        (tmp_path / name).mkdir()
    for name in ("a-1", "a-2"):
        shutil.copytree(run, tmp_path / name, dirs_exist_ok=True)
    (tmp_path / "a-1/checkpoints/000000000064.eqx").unlink()
    shutil.rmtree(tmp_path / "a-1/resume")
    assert begun(tmp_path, "a-*") == ["a-1", "a-2"]
    assert begun(tmp_path / "absent") == []
    places = {name: tmp_path / name for name in ("absent", "b", "a-1", "a-2")}
    assert latest_run(*places.values()) == places["a-2"]
    assert latest_run(places["absent"], places["a-1"]) == places["a-1"]
    with pytest.raises(ValueError, match="no checkpoints in any of"):
        latest_run(places["absent"])


# Edits


def test_the_difference_of_attention_is_what_is_clamped(run):
    wanted = (-1.0, -0.25, 0.5, 1.0)
    found = icl.replay(
        run,
        {"strength": induction_strength(1)},
        data="flip",
        edits=[attention_differences(1, wanted)],
        checkpoints=[-1],
    )
    expected = np.broadcast_to(np.array(wanted)[:, None], (4, 4))
    np.testing.assert_allclose(found["strength"][0], expected, atol=1e-6)


def test_without_the_way_past_only_the_heads_write_to_the_output(run):
    trained = icl.load(run)
    example = jax.tree.map(lambda x: x[0], trained.evaluations["flip"])
    forward, sites = trained.task.forward, ("resid_mid", "attn.z", "attn.out")
    names = tuple(f"blocks.1.{site}" for site in sites)
    visit = lambda edits: opto.visit(
        forward, trained.model, example, record=names, edits=edits
    )[1]
    whole, cut = visit(()), visit(without_way_past(1))
    # What the unedited heads write: the output projection of z, in float64.
    z = np.asarray(whole[names[1]], np.float64).transpose(1, 0, 2)
    weight = np.asarray(trained.model.blocks[1].attn.output.weight, np.float64)
    written = z.reshape(len(z), -1) @ weight.T
    np.testing.assert_allclose(cut[names[0]], written, atol=1e-5)
    assert np.abs(np.asarray(whole[names[0]]) - written).max() > 0.1


def test_lower_layer_ablations_change_what_they_say_alone(run):
    trained = icl.load(run)
    example = jax.tree.map(lambda x: x[0], trained.evaluations["flip"])
    names = tuple(f"blocks.1.attn.{part}" for part in ("q", "k", "v"))
    seen = {
        name: opto.visit(
            trained.task.forward, trained.model, example, record=names, edits=edits
        )[1]
        for name, edits in lower_layer_ablations(trained).items()
    }
    changed = {
        name: {
            site[-1]
            for site in names
            if np.abs(np.asarray(record[site] - seen["nothing"][site])).max() > 1e-4
        }
        for name, record in seen.items()
    }
    assert changed == {
        "nothing": set(),
        "layer 0 to the output": set(),
        "layer 0 to queries": {"q"},
        "layer 0 to keys": {"k"},
        "layer 0 to values": {"v"},
        "all heads": {"q", "k", "v"},
    }


def test_without_all_heads_the_context_is_not_seen(run):
    trained = icl.load(run)
    measure = Measure(lambda record, outputs, example: outputs)
    edits = lower_layer_ablations(trained)["all heads"]
    sequences = trained.evaluations["flip"]
    turned = dataclasses.replace(
        sequences,
        labels=sequences.labels.at[:, :2].set(sequences.labels[:, 1::-1]),
    )
    once, twice = (
        icl.replay(run, {"x": measure}, data=data, edits=edits, checkpoints=[-1])["x"]
        for data in (sequences, turned)
    )
    np.testing.assert_array_equal(once, twice)


# The figure of clamped attention


def test_the_figure_has_a_line_for_each_head_and_keeps_what_it_draws():
    x = np.linspace(-1, 1, 5)
    given = {"a": np.stack([x**2, (x + 1) / 2, 0 * x], 1), "b": np.ones((5, 3))}
    figure = plots.head_lines(
        x, given, of="difference", label="accuracy", threshold=0.5
    )
    for ax, (title, values) in zip(figure.axes, given.items(), strict=True):
        lines = [line for line in ax.get_lines() if np.size(line.get_xdata()) == 5]
        assert ax.get_title() == title
        np.testing.assert_array_equal([line.get_ydata() for line in lines], values.T)
        np.testing.assert_array_equal(figure.drawn[title].values, values)
        np.testing.assert_array_equal(figure.drawn[title].axes["difference"], x)
