"""The analyses of studies, against NumPy in float64, SciPy and runs by hand."""

import dataclasses
import json
import math
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import icl
import opto
from icl import plots
from icl.data import LowRankClasses
from icl.presets.induction import induction
from icl.runs import is_finished
from icl.tasks.exemplar_label import answers, exemplars_swapped
from icl.training.optimizers import Adam, Constant
from icl.training.schedules import Every
from sweeps import analysis
from sweeps.studies.coopetition.analysis import lower_layer_ablations
from sweeps.studies.induction import analysis as paper


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study with one finished run, one unfinished run, and one not begun."""
    path = tmp_path_factory.mktemp("runs") / "small"
    icl.run_experiment(_experiment(), path / "main")
    icl.run_experiment(_experiment(), path / "other")
    last = path / "other/checkpoints" / f"{320:012}.eqx"
    last.unlink()
    shutil.rmtree(path / "other" / "resume")
    runs = dict.fromkeys(("main", "other", "never"), icl.Run(path / "main").config)
    study = {"study": "s", "scale": "smoke", "folder": str(path), "runs": runs}
    (path / "_sweep").mkdir()
    (path / "_sweep/study.json").write_text(json.dumps(study))
    return path


def _experiment():
    base = induction(LowRankClasses(num_classes=60, num_exemplars=2, dim=8))
    return dataclasses.replace(
        base,
        model=dataclasses.replace(base.model, d_model=16, num_heads=4),
        optimizer=Adam(Constant(1e-2)),
        training=dataclasses.replace(
            base.training,
            num_sequences=320,
            evaluate_at=Every(160),
            checkpoint_at=Every(160),
        ),
        evaluations={"train": icl.EvaluationSet(size=50)},
    )


@pytest.fixture(scope="module")
def trained(folder):
    return icl.load(folder / "main")


# Studies


def test_a_run_is_finished_after_its_last_whole_batch(tmp_path):
    assert not is_finished(tmp_path)
    config = tmp_path / "config.json"
    config.write_text("{}")
    assert not is_finished(tmp_path)
    training = {"num_sequences": 70, "batch_size": 32}
    config.write_text(json.dumps({"training": training}))
    (tmp_path / "checkpoints").mkdir()
    for sequences, expected in ((0, False), (70, False), (96, True)):
        (tmp_path / f"checkpoints/{sequences:012d}.eqx").touch()
        assert is_finished(tmp_path) == expected


def test_a_study_has_the_runs_that_are_finished(folder):
    study = analysis.Study.read(folder)
    assert study.scale == "smoke"
    assert study.names == ("main",)
    assert "main" in study
    assert "other" not in study
    assert str(study) == "small: scale 'smoke', 1 of 3 runs"


def test_a_study_that_was_not_run_has_none(tmp_path):
    study = analysis.Study.read(tmp_path / "clamps")
    assert study.names == ()
    assert str(study) == "clamps: not run"
    assert study.curve("main")[0].size == 0


def test_runs_are_found_where_the_variable_says(folder, monkeypatch, tmp_path):
    monkeypatch.setenv(analysis.RUNS, str(folder))
    assert analysis.find_run("never", "other", "main") == folder / "main"
    assert analysis.find_run("never") is None
    monkeypatch.delenv(analysis.RUNS)
    (tmp_path / "runs").mkdir()
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    assert analysis.runs_folder() == tmp_path / "runs"


def test_curves_are_those_of_the_log(folder):
    study = analysis.Study.read(folder)
    log = icl.Run(folder / "main").log
    events, losses = study.curve("main")
    assert events.tolist() == log.events.tolist()
    rows = log.evaluations["train"]["loss"].astype(np.float64)
    assert np.allclose(losses, rows.mean(1), atol=1e-12)
    assert study.curve("main", data="nothing")[0].size == 0


def test_curves_of_other_points_come_on_one_axis():
    curves = {"a": ([0, 10, 20], [0.0, 1.0, 2.0]), "b": ([10, 30], [4.0, 0.0])}
    points, values = analysis.together(
        {name: (np.array(x), np.array(y)) for name, (x, y) in curves.items()}
    )
    assert points.tolist() == [0, 10, 20, 30]
    wanted = [[0, np.nan], [1, 4], [2, 2], [np.nan, 0]]
    assert np.array_equal(values, wanted, equal_nan=True)
    assert analysis.together([])[1].shape == (0, 0)


# Emergence


def test_a_loss_that_falls_exponentially_crosses_where_the_logarithm_says():
    x = np.linspace(0, 10, 2001)
    found = analysis.crossing(x, np.exp(-x), 0.25)
    assert found == pytest.approx(math.log(4), abs=1e-5)
    assert analysis.crossing(x, np.exp(-x) + 1, 0.25) == math.inf
    assert math.isnan(analysis.crossing(np.array([]), np.array([])))


def test_intervals_are_students():
    values = np.array([3.0, 5.0, 4.5, 6.0])
    found = analysis.Estimate.of(values)
    low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert (found.value, found.low, found.high) == pytest.approx(
        (values.mean(), low, high)
    )
    assert (found.known, found.count) == (4, 4)


def test_what_some_seeds_never_reach_has_a_median_and_no_interval():
    found = analysis.Estimate.of([3.0, 5.0, np.nan, 4.5, np.inf, 6.0])
    assert found.value == 5.0
    assert math.isnan(found.low)
    assert str(found) == "median 5, reached in 4 of 5 seeds"
    found = analysis.Estimate.of([3.0, np.inf])
    assert math.isinf(found.value)
    assert str(found) == "reached in 1 of 2 seeds"


def test_estimates_say_what_is_not_known():
    assert str(analysis.Estimate.of([])) == "–"
    assert str(analysis.Estimate.of([np.inf])) == "not reached"
    assert str(analysis.Estimate.of([2.0])) == "2"


@pytest.mark.parametrize(
    "values", [[1.0, 1.0, 1.0, 0.5], [0.99, 1.0], [0.0, 0.02, 0.01], [1.0, 1.0]]
)
def test_an_interval_stays_within_the_bounds(values):
    found = analysis.Estimate.of(values, (0.0, 1.0))
    assert 0 <= found.low <= found.high <= 1
    # The interval is that of the angle with cosine 1 - 2 p; Student's t is SciPy's.
    angle = np.arccos(1 - 2 * np.array(values))
    spread = stats.sem(angle)
    if spread:
        low, high = stats.t.interval(0.95, len(angle) - 1, angle.mean(), spread)
        expected = (1 - np.cos(np.clip([low, high], 0, np.pi))) / 2
        np.testing.assert_allclose([found.low, found.high], expected, atol=1e-12)
    # The same on another scale.
    strengths = analysis.Estimate.of([2 * x - 1 for x in values], (-1.0, 1.0))
    assert strengths.low == pytest.approx(2 * found.low - 1, abs=1e-9)


def test_an_interval_is_cut_off_at_a_lone_bound():
    losses = [0.01, 0.02, 0.4]
    low, high = stats.t.interval(0.95, 2, np.mean(losses), stats.sem(losses))
    assert low < 0
    found = analysis.Estimate.of(losses, (0.0, np.inf))
    assert (found.low, found.high) == pytest.approx((0, high))
    with pytest.raises(ValueError, match=r"must lie in \[0.0, inf\], got"):
        analysis.Estimate.of([-1.0, 1.0], (0.0, np.inf))


def test_a_value_out_of_bounds_is_refused():
    assert analysis.Estimate.of([1.0 + 1e-7, 1.0], (0.0, 1.0)).high == 1
    with pytest.raises(ValueError, match=r"must lie in \[0.0, 1.0\], got"):
        analysis.Estimate.of([1.2, 1.0], (0.0, 1.0))


# Heads and paths


def by_hand(trained, edits, batch):
    """Which answers are right, and each answer's loss, in float64."""
    logits, _ = opto.run(trained.model, *trained.task.inputs(batch), edits=edits)
    logits = np.asarray(logits, np.float64)[:, -1]
    target = np.asarray(batch.labels)[:, -1]
    loss = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1))
    loss += logits.max(-1) - logits[np.arange(len(target)), target]
    return logits.argmax(-1) == target, loss


def zero(layer, heads):
    return opto.Zero(f"blocks.{layer}.attn.z", head=heads)


def test_the_table_of_heads_is_what_ablations_one_by_one_give(trained):
    batch = trained.evaluations["train"]
    table = paper.head_table(trained)
    right, loss = by_hand(trained, (), batch)
    assert table.whole["accuracy"] == pytest.approx(right.mean())
    assert table.whole["loss"] == pytest.approx(loss.mean(), abs=1e-5)
    for head in range(4):
        others = [h for h in range(4) if h != head]
        _, loss = by_hand(trained, (zero(1, [head]),), batch)
        assert table.without["loss"][head] == pytest.approx(loss.mean(), abs=1e-5)
        right, loss = by_hand(trained, (zero(1, others),), batch)
        assert table.alone["loss"][head] == pytest.approx(loss.mean(), abs=1e-5)
        assert np.array_equal(table.right[head], right)
    two = [int(h) for h in table.order[2:]]
    _, loss = by_hand(trained, (zero(1, two),), batch)
    assert table.added["loss"][1] == pytest.approx(loss.mean(), abs=1e-5)
    assert table.added["loss"][3] == table.whole["loss"]
    assert table.strength[table.best] == table.strength.max()


def test_what_is_mended_is_counted():
    right = np.array([[True, False, False, False], [False, True, True, False]])
    assert paper.mended(right, 0).tolist() == [0, pytest.approx(2 / 3)]
    assert np.isnan(paper.mended(np.ones((2, 3), bool), 0)).all()


def test_a_perfect_match_leaves_the_copying_of_one_head(trained):
    batch = trained.evaluations["train"]
    found = paper.perfect_match(trained)
    labels = np.asarray(batch.labels)
    correct = np.where(labels[:, 0] == labels[:, -1], 1, 3)
    pattern = jax.nn.one_hot(correct, 5)[:, None, None, :]
    for head in range(4):
        others = [h for h in range(4) if h != head]
        _, record = opto.run(
            trained.model, *trained.task.inputs(batch), record="blocks.1.attn.pattern"
        )
        clamped = record["blocks.1.attn.pattern"].at[:, :, -1:].set(pattern)
        match = opto.Patch("blocks.1.attn.pattern", {"blocks.1.attn.pattern": clamped})
        right, _ = by_hand(trained, (match, zero(1, others)), batch)
        assert np.array_equal(found.right[head], right)
        for label in range(5):
            there = labels[:, -1] == label
            wanted = right[there].mean() if there.any() else np.nan
            assert found.by_label[head, label] == pytest.approx(wanted, nan_ok=True)


@pytest.mark.parametrize(
    ("path", "held"), [(paper.VALUES, "pattern"), (paper.KEYS, "v")]
)
def test_a_path_is_what_is_left_when_the_other_is_held(trained, path, held):
    batch = trained.evaluations["train"]
    sets = {"two": [0, 2], "one": [3]}
    found = paper.path_ablations(trained, sets, metric="loss")
    pairs = paper.path_pairs(trained, metric="loss")
    site = f"blocks.1.attn.{held}"
    _, record = opto.run(trained.model, *trained.task.inputs(batch), record=site)
    hold = opto.Patch(site, {site: record[site]})
    for row, heads in enumerate(sets.values()):
        _, loss = by_hand(trained, (hold, zero(0, heads)), batch)
        assert found.metric[path][row] == pytest.approx(loss.mean(), abs=1e-5)
        _, loss = by_hand(trained, (zero(0, heads),), batch)
        assert found.metric["both"][row] == pytest.approx(loss.mean(), abs=1e-5)
    edits = hold, zero(0, [0, 1, 3]), zero(1, [1, 2, 3])
    _, loss = by_hand(trained, edits, batch)
    assert pairs.metric[path][0, 2] == pytest.approx(loss.mean(), abs=1e-5)
    assert pairs.composition[path].shape == (4, 4)


def test_direct_ways_are_cut_while_layer_1_reads_as_before(trained):
    batch = trained.evaluations["train"]
    found = icl.replay(trained, paper.direct_ways(trained), checkpoints=[-1])
    site = "blocks.1.attn.z"
    _, record = opto.run(trained.model, *trained.task.inputs(batch), record=site)
    hold = opto.Patch(site, {site: record[site]})
    _, loss = by_hand(trained, (hold, opto.Zero("blocks.0.attn.z")), batch)
    assert found["without layer 0"][0] == pytest.approx(loss.mean(), abs=1e-5)
    _, loss = by_hand(trained, (opto.Zero(site),), batch)
    assert found["without layer 1"][0] == pytest.approx(loss.mean(), abs=1e-5)


def test_paths_are_of_runs_without_edits(trained):
    edited = dataclasses.replace(trained, edits=(zero(1, [0]),))
    with pytest.raises(ValueError, match="without edits"):
        paper.path_pairs(edited)
    with pytest.raises(ValueError, match="without edits"):
        paper.direct_ways(edited)
    with pytest.raises(ValueError, match="without edits"):
        lower_layer_ablations(edited)
    with pytest.raises(ValueError, match="none"):
        analysis.without(0, [[]])
    with pytest.raises(ValueError, match="layer must be"):
        paper.head_table(trained, layer=2)


def test_previous_token_heads_are_those_above_a_level(trained):
    every = paper.previous_token_heads(trained, least=0.0)
    assert sorted(every) == [0, 1, 2, 3]
    assert paper.previous_token_heads(trained, least=2.0) == every[:1]


# Answers


def test_answers_are_scored_as_numpy_does(trained):
    batch = trained.evaluations["train"]
    inputs = trained.task.inputs(batch)
    logits, _ = opto.run(trained.model, *inputs)
    last, labels = np.asarray(logits, np.float64)[:, -1], np.asarray(batch.labels)
    rows = np.arange(len(labels))
    other = np.where(labels[:, 0] == labels[:, 2], labels[:, 1], labels[:, 0])
    margin = (last[rows, labels[:, 2]] - last[rows, other]).mean()
    assert answers.logit_difference(logits, *inputs) == pytest.approx(margin, abs=1e-5)
    accuracy = (last.argmax(-1) == labels[:, 2]).mean()
    assert answers.answer_accuracy(logits, *inputs) == pytest.approx(accuracy)
    np.testing.assert_array_equal(answers.other_answer(inputs[1]), other)
    np.testing.assert_array_equal(
        answers.is_answered(logits, jnp.asarray(other)), last.argmax(-1) == other
    )
    loss = (special.logsumexp(last, axis=1) - last[rows, other]).mean()
    ours = answers.answer_loss(logits, jnp.asarray(other))
    assert ours == pytest.approx(loss, abs=1e-5)


def test_exchanged_exemplars_turn_the_answer_around(trained):
    batch = trained.evaluations["train"]
    swapped = exemplars_swapped(batch)
    assert jnp.array_equal(swapped.examples[:, 0], batch.examples[:, 1])
    assert jnp.array_equal(swapped.examples[:, 2], batch.examples[:, 2])
    assert jnp.array_equal(swapped.labels, batch.labels)
    right = batch.labels[:, :2][batch.classes[:, :2] == batch.classes[:, 2:]]
    now = swapped.labels[:, :2][swapped.classes[:, :2] == swapped.classes[:, 2:]]
    assert not (right == now).any()


def test_tokens_have_names():
    names = answers.sequence_letters(jnp.array([[3, 1, 3], [0, 4, 4]]))
    assert names == [["A", "ℓ3", "B", "ℓ1", "A?"], ["A", "ℓ0", "B", "ℓ4", "B?"]]


# Tables and figures


def test_a_table_reads_in_a_terminal_a_notebook_and_a_file():
    estimate = analysis.Estimate.of([1.0, 3.0])
    rows = [("a|b", 1234, None, True), ("<c>", 0.99991, math.nan, estimate)]
    table = analysis.Table(("what", "x", "y", "z"), rows)
    assert repr(table).splitlines()[1].split() == ["a|b", "1,234", "–", "yes"]
    assert table.texts[1] == ["<c>", "0.9999", "–", "2 [-10.7, 14.7]"]
    assert "&lt;c&gt;" in table._repr_html_()
    with pytest.raises(ValueError, match="4 cells"):
        analysis.Table(("what", "x", "y", "z"), [(1, 2)])


@pytest.mark.filterwarnings("error")
def test_figures_of_heads_keep_what_they_show(tmp_path):
    rng = np.random.default_rng(0)
    numbers = rng.uniform(size=(2, 3))
    groups = {"a": numbers[0], "b": np.where(numbers[1] < 0.5, np.nan, numbers[1])}
    figures = {
        "bars": plots.bars({"": groups}, ["0", "1", "2"], label="accuracy", by="x"),
        "dots": plots.dots(
            {"t": {"a": (numbers[0], numbers[1])}},
            x="strength",
            y="accuracy",
            names={"a": ["0", "1", "2"]},
            identity=True,
        ),
        "intervals": plots.intervals(
            {"a": {"x": (1.0, 0.5, 1.5), "y": (2.0, math.nan, math.nan)}}, label="time"
        ),
        "logarithmic": plots.intervals(
            {"a": {"x": 0.001, "y": 1.0}}, label="loss", scale="log"
        ),
        "maps": plots.head_maps(
            {"t": numbers}, rows="r", columns="c", label="accuracy"
        ),
    }
    assert np.array_equal(figures["bars"].drawn["a"].values, numbers[0])
    assert np.array_equal(figures["dots"].drawn["t/a/y"].values, numbers[1])
    assert figures["intervals"].drawn["a/low"].values[0] == 0.5
    (ax,) = figures["logarithmic"].axes
    figures["logarithmic"].draw_without_rendering()
    assert {"0.001", "0.01", "1"} <= {text.get_text() for text in ax.get_xticklabels()}
    assert np.array_equal(figures["logarithmic"].drawn["a"].values, [0.001, 1])
    assert np.array_equal(figures["maps"].drawn["t"].values, numbers)
    for name, figure in figures.items():
        plots.save(figure, tmp_path / f"{name}.png")
        assert figure._repr_png_()[:8] == b"\x89PNG\r\n\x1a\n"
    with pytest.raises(ValueError, match="one label for each of 1 panels, got 2"):
        plots.dots({"t": {}}, x="x", y=("a", "b"))
