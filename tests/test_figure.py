"""`icl figure` on invented runs, whose curves have closed forms."""

import dataclasses
import functools
import json
import math
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from commands import check_refused

from icl import plots
from icl.cli import figure as _cli_figure
from icl.config import to_json
from icl.plots import read_drawn
from icl.runs import Log
from sweeps.analysis import Estimate
from sweeps.figures import (
    ACCURACY,
    Alike,
    all_figures,
    command as _figure,
    DIFFERENCE,
    dotted,
    Exceeds,
    Given,
    Judged,
    Measured,
    Ordering,
    Row,
    Same,
    SEQUENCES,
    Times,
    Together,
    Verdict,
    verdict_of_row,
    Within,
)
from sweeps.figures._verdict import verdict_of_claim
from sweeps.folder import Folder
from sweeps.plan import experiments_of
from sweeps.studies.induction.clamps import runs as clamps
from sweeps.study import list_trials, load_study


FIGURES = all_figures()
HALF = math.log(2) / 2
SEEDS = (10, 11)
# Thousands of sequences until seed 10's loss is zero; seed 11 takes a tenth more.
ENDS = {
    "none": 500,
    "previous-token": 400,
    "layer-0": 190,
    "match": 80,
    "copy": 90,
    "layer-0-copy": 60,
}


def crossed(thousands):
    """The time when 0.8 (1 - t / end) is half of ln 2."""
    return 1e3 * thousands * (1 - HALF / 0.8)


def make_study(folder, ends, scale="small", data=None):
    """Makes a finished study of the clamps, with losses that fall linearly to zero."""
    folder = Folder(folder)
    _, module = load_study("clamps")
    runs = experiments_of(list_trials(module, scale, folder.path, data), (), folder)
    with folder.claimed("clamps", scale):
        folder.begin("clamps", scale, runs, runs, (), ())
    for seed in SEEDS:
        # The clamps take their heads from this run, but nothing here reads it.
        make_run(folder, f"seed-{seed}", runs, 1000)
        for name, end in ends.items():
            later = 1 + 0.1 * (seed - SEEDS[0])
            make_run(folder, f"seed-{seed}-{name}", runs, end * later)
    return folder


def make_run(folder, name, runs, end):
    path, length = folder.run(name), runs[name].training.seen_sequences
    (path / "resume").mkdir(parents=True)
    (path / f"resume/{length:012d}.eqx").touch()
    (path / "config.json").write_text(json.dumps(to_json(runs[name])))
    log = Log()
    for event in range(0, length + 1, 20_000):
        loss = max(0.0, 0.8 * (1 - event / (1e3 * end)))
        rows = np.float64([loss - 0.01, loss + 0.01])  # The mean is the loss.
        log.add_evaluation(event, {"train": {"loss": rows}})
    log.write(path / "log.h5", 32)


@pytest.fixture(autouse=True)
def few_seeds(request, monkeypatch):
    """The study has only the seeds of the invented runs, so it is quick to plan."""
    if "figure" not in request.fixturenames:
        monkeypatch.setattr(clamps, "SEEDS", SEEDS)


@pytest.fixture
def not_drawn(monkeypatch):
    """Skips drawing, which takes most of the time."""
    monkeypatch.setattr(_figure.plots, "save", lambda *_: None)


@pytest.fixture
def nothing_trained(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("nothing is to be trained")

    monkeypatch.setattr(_figure, "train", fail)


def run(out, *arguments):
    return _figure.figure([*arguments, "--out", str(out), "--seeds", "10", "11"])


NAME = "induction-5b-small-seed-10-seed-11"


def read(out):
    return json.loads((out / f"figures/{NAME}.json").read_text())


# A figure of a study


def test_measured_against_closed_forms(tmp_path, capsys, nothing_trained, not_drawn):
    # Runs are found by what they are, not by the folder's name.
    make_study(tmp_path / "under-another-name", ENDS)
    assert run(tmp_path, "induction/5b") == 0
    printed = capsys.readouterr().out
    assert "claims, in 2 or more of the seeds 10, 11:" in printed
    claim = "previous-token at least 2 times layer-0"
    assert f"{claim}: holds (in 2 of 2 seeds)" in printed
    assert "on synthetic classes" in printed
    found = read(tmp_path)
    assert found["claims"][claim] == {"verdict": "holds", "seeds": 2, "of": 2}
    assert len(found["claims"]) == len(FIGURES["induction/5b"].claims)
    assert found["seeds"] == found["judged"] == [10, 11]
    for name, end in ENDS.items():
        wanted = [crossed(end), crossed(1.1 * end)]
        row = found["rows"][name]
        np.testing.assert_allclose(row["measured"], wanted, rtol=1e-9)
        np.testing.assert_allclose(row["value"], np.mean(wanted), rtol=1e-9)
        # Student's t with one degree of freedom, at 0.975, is tan(0.475 π).
        half = math.tan(0.475 * math.pi) * np.std(wanted, ddof=1) / math.sqrt(2)
        np.testing.assert_allclose(np.ptp(row["interval"]), 2 * half, rtol=1e-6)
    to_tenth = found["rows"]["match to 0.1 nats"]["measured"]
    np.testing.assert_allclose(to_tenth, [70_000, 77_000], rtol=1e-9)
    row = next(line for line in printed.splitlines() if line.startswith("none "))
    assert row.split()[1:3] == ["292,000", f"{crossed(525):,.0f}"]
    assert row.split()[-2:] == [f"{crossed(525) / 292e3:.2f}", "holds"]
    # 90 thousand is not within a quarter of the paper's 62.
    assert found["rows"]["match to 0.1 nats"]["verdict"] == "holds"
    assert found["rows"]["match"]["verdict"] == "differs"
    assert found["verdict"] == "differs"
    assert printed.endswith("figure: differs\n")


def test_the_figure_is_drawn_with_its_data_beside(tmp_path, nothing_trained):
    make_study(tmp_path / "clamps", ENDS)
    run(tmp_path, "induction/5b")
    figures = tmp_path / "figures"
    assert (figures / f"{NAME}.png").read_bytes()[1:4] == b"PNG"
    assert (figures / f"{NAME}.pdf").read_bytes()[:4] == b"%PDF"
    drawn = read_drawn(figures / f"{NAME}.h5")
    seen = drawn["traces"].axes["sequences seen"]
    assert drawn["traces"].values.shape == (len(seen), 2 * len(ENDS))
    np.testing.assert_allclose(drawn["traces"].values[0], 0.8, rtol=1e-6)


def test_an_ordering_that_does_not_hold(tmp_path, capsys, nothing_trained, not_drawn):
    make_study(tmp_path / "clamps", {**ENDS, "layer-0-copy": 85})
    assert run(tmp_path, "induction/5b") == 1
    printed = capsys.readouterr().out
    match, both = (f"{crossed(end):,.0f}" for end in (80, 85))
    assert "layer-0-copy: not reproduced (in 0 of 2 seeds): " in printed
    assert f"match ({match}) is not above layer-0-copy ({both})" in printed
    assert "copy (" not in printed.replace("layer-0-copy (", "")


def test_what_is_not_reached_is_later(tmp_path, capsys, nothing_trained, not_drawn):
    # Zero at 1040 thousand means ½ ln 2 at 589, within the run; 1144 means 648.
    make_study(tmp_path / "clamps", {**ENDS, "none": 1040})
    assert run(tmp_path, "induction/5b") == 0
    printed = capsys.readouterr().out
    assert "in 1 of 2" in printed
    row = read(tmp_path)["rows"]["none"]
    assert (row["value"], row["reached"]) == ("not reached", 1)
    assert row["interval"] == [None, None]


# Which runs


def test_what_is_missing_is_trained(tmp_path, monkeypatch, not_drawn):
    folder = make_study(tmp_path / "clamps", ENDS)
    missing = folder.run("seed-11-match") / "resume"
    (files,) = missing.iterdir()
    files.unlink()
    launched = []

    def train(there, study, scale, asked, executor):
        launched.append((there.path, study, scale, asked.chosen))
        files.touch()
        return True

    monkeypatch.setattr(_figure, "train", train)
    assert run(tmp_path, "induction/5b") == 0
    ((path, study, scale, chosen),) = launched
    assert (path, study, scale) == (tmp_path / "clamps", "clamps", "small")
    # All runs in the figure and those they need; finished runs are skipped.
    names = {f"seed-{seed}-{name}" for seed in SEEDS for name in ENDS}
    assert chosen == names | {"seed-10", "seed-11"}


def data_file(path):
    with h5py.File(path, "w") as file:
        rng = np.random.default_rng(0)
        file["features"] = rng.random((300, 5, 4), np.float32)
    return path


def test_other_data_and_scales_get_another_folder(tmp_path):
    make_study(tmp_path / "clamps", ENDS)
    data = _figure.classes_in(str(data_file(tmp_path / "classes.h5")))
    _, module = load_study("clamps")

    def folder_of(scale, data=None):
        def planned(path):
            return _figure._experiments(module, scale, Folder(path), data)

        runs = ["seed-10-none"]
        folder, notes = _figure.study_folder(tmp_path, "clamps", scale, planned, runs)
        assert [("data" in note) for note in notes] == [True] * bool(data)
        return folder.path

    assert folder_of("small") == tmp_path / "clamps"
    assert folder_of("smoke") == tmp_path / "clamps-smoke"
    others = {folder_of("small", data), folder_of("small", data)}
    assert others == {tmp_path / "clamps-small"}
    (tmp_path / "clamps-small").mkdir()
    (tmp_path / "clamps-small/notes.txt").touch()
    (third,) = {folder_of("small", data), folder_of("small", data)}
    assert third.name.startswith("clamps-small-")


def test_runs_that_were_moved_are_told_of_before_they_are_trained_again(tmp_path):
    make_study(tmp_path / "old", ENDS)
    (tmp_path / "old").rename(tmp_path / "clamps")
    _, module = load_study("clamps")

    def planned(path):
        return _figure._experiments(module, "small", Folder(path), None)

    runs = ["seed-10-none"]
    folder, notes = _figure.study_folder(tmp_path, "clamps", "small", planned, runs)
    assert folder.path == tmp_path / "clamps-small"
    (note,) = notes
    assert f"was made as {tmp_path / 'old'} and moved" in note


@functools.cache
def run_names(study, scale):
    _, module = load_study(study)
    return [t.name for t in list_trials(module, scale, Path("/nowhere"), None)]


# Their runs start from many checkpoints of another run, or are many programs.
ONLY_AT_SMALL = ("attention/functions",)
NOT_AT_SMOKE = (
    *("coopetition/4c", "coopetition/6"),
    *("coopetition/rejected", "coopetition/variants", "transience/zipf"),
    *ONLY_AT_SMALL,
)


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_each_figures_runs_are_in_its_study(figure, scale):
    if not figure.study:
        assert not figure.runs
        return
    if figure.name in ONLY_AT_SMALL and scale != "small":
        return
    found = figure.found(run_names(figure.study, scale))
    assert found or (scale == "smoke" and figure.name in NOT_AT_SMOKE)
    if scale != "smoke":
        assert found.keys() == figure.runs.keys()
    if (scale, figure.study) == ("small", "clamps"):
        assert {tuple(each) for each in found.values()} == {tuple(range(10, 20))}
    if (scale, figure.study) == ("small", "replicas"):
        assert {tuple(each) for each in found.values()} == {(5, 6, 7, 8, 9)}


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_claims_are_of_rows_and_hold_of_the_targets(figure):
    for claim in figure.claims:
        # With a NaN target, the claim is undecided.
        assert claim.holds(figure.targets, figure.targets) is not False, str(claim)


# Bad input, lists, other commands


def test_without_a_name_figures_are_listed(capsys):
    assert _figure.figure([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == [*FIGURES]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["5b"], "no figure '5b'; did you mean 'induction/5b'"),
        (["coopetition/1a"], "did you mean 'coopetition/"),
        (["nothing"], "known: attention/bias, "),
        (["induction/5a", "--seeds", "5"], "--seeds: induction/5a is a toy model"),
        (["induction/5b", "--seeds", "4"], "no seed 4; there are 10, 11"),
        (["induction/5b", "--data", "none.h5"], "--data: there is no file"),
    ],
)
def test_bad_input(arguments, message, tmp_path, nothing_trained):
    with pytest.raises(ValueError, match=message):
        _figure.figure([*arguments, "--out", str(tmp_path / "runs")])
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seeds", "10", "10"], "--seeds must be different"),
        (["--scale", "huge"], "invalid choice 'huge'"),
        (["--jobs", "0"], "--jobs must be at least 1"),
    ],
)
def test_bad_options(capsys, options, message):
    check_refused(capsys, ["induction/5b", *options], message, program=_figure.figure)


def test_a_toy_needs_no_runs(tmp_path, capsys, not_drawn):
    assert _figure.figure(["induction/5a", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "equal to the targets: {none, c, b and c}: holds" in printed
    found = json.loads((tmp_path / "figures/induction-5a.json").read_text())
    measured = {row: value["measured"] for row, value in found["rows"].items()}
    assert measured == {"none": [742], "c": [116], "b and c": [66]}


def test_without_the_other_package_the_command_says_so(monkeypatch):
    monkeypatch.setattr(_cli_figure, "entry_points", lambda **_: [])
    with pytest.raises(ValueError, match="python -m sweeps figure"):
        _cli_figure.figure([])


# Claims


def test_drawn_intervals_stay_within_the_bounds_of_a_unit():
    values = {"share": np.array([1.0, 1.0, 1.0, 0.0])}
    rows = {"share": Row(math.nan, ACCURACY)}
    drawn = dotted(values, rows, "a share").drawn
    assert drawn["ours"].values[0] == 0.75
    low, high = (drawn[f"ours/{end}"].values[0] for end in ("low", "high"))
    assert 0 <= low < 0.75 < high <= 1
    # Without bounds, Student's interval is .75 ± 3.18 · .5 / √4.
    free = {"share": Row(math.nan, DIFFERENCE)}
    (above,) = dotted(values, free, "a number").drawn["ours/high"].values
    assert above == pytest.approx(0.75 + 3.18245 * 0.5 / 2, abs=1e-4)


@pytest.mark.parametrize(
    ("numbers", "holds"),
    [
        ({"a": 4, "b": 3, "c": 2, "d": 1}, True),
        ({"a": 4, "b": 2, "c": 3, "d": 1}, True),
        ({"a": 4, "b": 3, "c": 1, "d": 2}, False),
        ({"a": 3, "b": 3, "c": 2, "d": 1}, False),
        ({"a": math.inf, "b": 3, "c": 2, "d": 1}, True),
        ({"a": 4, "b": 3, "c": 2, "d": math.inf}, False),
        ({"a": math.inf, "b": math.inf, "c": 2, "d": 1}, None),
        ({"a": 4, "b": math.nan, "c": 2, "d": 1}, None),
        ({"a": 1, "b": math.nan, "c": 2, "d": 1}, False),
    ],
)
def test_orderings(numbers, holds):
    claim = Ordering(("a", ("b", "c"), "d"))
    assert str(claim) == "ordering a > {b, c} > d"
    assert claim.holds(numbers, {}) is holds


NUMBERS = {"a": 1.0, "b": 1.2, "c": math.nan, "d": math.inf}


@pytest.mark.parametrize(
    ("claim", "holds"),
    [
        (Within("a", low=0.9), True),
        (Within("a", high=0.9), False),
        (Within("c", low=0), None),
        (Within("d", low=1.3), True),
        (Within("d", high=1e9), False),
        (Alike(("a", "b"), 1.2), True),
        (Alike(("a", "b"), 1.1), False),
        (Alike(("a", "d"), 9), False),
        (Alike(("d", "d"), 9), None),
        (Same(("a", "d")), True),
        (Same(("b",), 0.2), True),
        (Same(("b",), 0.1), False),
        (Same(("c",)), None),
        (Exceeds("b", "a", by=0.19), True),
        (Exceeds("b", "a", by=0.21), False),
        (Exceeds("d", "a", by=0.1), True),
        (Exceeds("a", "d", by=0.1), False),
        (Exceeds("c", "a", by=0.1), None),
        (Times("b", "a", 1.2), True),
        (Times("b", "a", 1.3), False),
        (Times("d", "a", 1.3), True),
        (Times("b", "d", 1.3), False),
        (Times("d", "d", 1.3), None),
    ],
    ids=str,
)
def test_other_claims(claim, holds):
    targets = {"a": 1.0, "b": 1.0, "c": 1.0, "d": math.inf}
    assert claim.holds(NUMBERS, targets) is holds
    assert bool(claim.against(NUMBERS, targets)) == (not holds)


# Quantities from curves


def test_runs_of_a_label_are_the_first_pattern_that_is_there():
    figure = dataclasses.replace(
        FIGURES["transience/preference"], runs={"main": "a-* | b-*"}
    )
    assert figure.found(["b-1", "c"]) == {"main": {0: "b-1"}}
    figure = dataclasses.replace(figure, runs={"main": "s{seed}", "other": "s{seed}-x"})
    assert figure.found(["s1", "s2", "s1-x", "s2-x", "s2-xy"], [2]) == {
        "main": {2: "s2"},
        "other": {2: "s2-x"},
    }
    # Without a choice, the seeds that every run has.
    assert figure.found(["s1", "s2", "s1-x"]) == {
        "main": {1: "s1"},
        "other": {1: "s1-x"},
    }


# From scratch


@pytest.mark.slow
def test_from_nothing_at_smoke_scale(tmp_path, capsys, monkeypatch):
    out = str(tmp_path)
    asked = ["transience/preference", "--scale", "smoke", "--out", out]
    # In its own process, because submitit leaves files open.
    command = [sys.executable, "-m", "sweeps", "figure", *asked]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed = done.stdout
    assert "not judged at scale smoke" in printed
    picture = tmp_path / "figures/transience-preference-smoke.png"
    before = picture.read_bytes()
    monkeypatch.setattr(_figure, "train", lambda *_: pytest.fail("trained again"))
    assert _figure.figure(asked) == 0
    assert capsys.readouterr().out == printed
    assert picture.read_bytes() == before
    log = tmp_path / "transience/classes-64-seed-6/log.h5"
    with h5py.File(log) as file:
        peak = file["eval/flip/in_context_accuracy"][1:].mean(1).max()
    found = json.loads(picture.with_suffix(".json").read_text())
    np.testing.assert_allclose(found["rows"]["flip peak"]["value"], peak, rtol=1e-6)


def test_claims_that_hold_together_hold_in_one_seed():
    claim = Together((Within("peak", low=0.6), Within("end", high=0.2)))
    assert str(claim) == "peak above 0.6, and end below 0.2"
    assert claim.holds({"peak": 0.7, "end": 0.1}, {}) is True
    assert claim.holds({"peak": 0.4, "end": 0.1}, {}) is False
    assert claim.against({"peak": 0.4, "end": 0.1}, {}) == ["peak is 0.4"]
    assert claim.holds({"peak": 0.7, "end": math.nan}, {}) is None


def test_a_claim_is_judged_seed_by_seed():
    claim = Together((Within("peak", low=0.6), Within("end", high=0.2)))
    good, never, stays, unknown = (
        {"peak": peak, "end": end}
        for peak, end in ((0.7, 0.1), (0.4, 0), (0.9, 0.3), (1, math.nan))
    )
    judge = functools.partial(verdict_of_claim, claim, targets={})
    # Their mean would be good, but only one of the three is.
    assert judge([good, never, stays]) is Verdict.NOT_REPRODUCED
    assert judge([good]) is Verdict.HOLDS
    # The rule needs four of five, and eight of ten.
    assert judge([good] * 4 + [never]) is Verdict.HOLDS
    assert judge([good] * 3 + [never, stays]) is Verdict.NOT_REPRODUCED
    assert judge([good] * 8 + [never] * 2) is Verdict.HOLDS
    assert judge([good] * 7 + [never] * 3) is Verdict.NOT_REPRODUCED
    assert judge([good, unknown]) is Verdict.ABSENT
    assert judge([]) is Verdict.ABSENT


def test_a_claim_with_a_condition_ignores_other_seeds():
    claim = Given(Within("loss", high=0.3), Within("cosine", low=0.9))
    good, bad, stuck = (
        {"loss": loss, "cosine": cosine}
        for loss, cosine in ((0.2, 0.99), (0.2, 0.5), (1.0, 0.0))
    )
    judge = functools.partial(verdict_of_claim, claim, targets={})
    assert judge([good, good, stuck]) is Verdict.HOLDS
    assert judge([good, bad, stuck]) is Verdict.NOT_REPRODUCED
    # Too few seeds meet the condition to tell.
    assert judge([good, stuck, stuck]) is Verdict.ABSENT
    assert str(claim) == "cosine above 0.9, given loss below 0.3"


def test_numbers_of_another_size_are_not_compared():
    figure = FIGURES["likelihood-ratio/bayes"]
    assert figure.at("paper").targets["A: accuracy"] == 0.783
    assert all(map(math.isnan, figure.at("small").targets.values()))
    assert FIGURES["induction/3a"].at("small") is FIGURES["induction/3a"]


@pytest.mark.parametrize(
    ("target", "unit", "values", "verdict"),
    [
        (100.0, SEQUENCES, [80, 100, 120], "holds"),
        (100.0, SEQUENCES, [124, 124], "holds"),
        (100.0, SEQUENCES, [126, 126], "differs"),
        (100.0, SEQUENCES, [79, 79], "differs"),
        (100.0, SEQUENCES, [math.inf, math.inf, 90], "not reproduced"),
        (math.inf, SEQUENCES, [math.inf, math.inf], "holds"),
        (math.inf, SEQUENCES, [90, 90], "not reproduced"),
        (0.9, ACCURACY, [0.86, 0.86], "holds"),
        (0.9, ACCURACY, [0.84, 0.84], "differs"),
        (0.9, ACCURACY, [math.nan], "absent"),
        (0.9, ACCURACY, [], "absent"),
        (math.nan, ACCURACY, [0.5], None),
    ],
)
def test_the_verdict_of_a_number(target, unit, values, verdict):
    found = Estimate.of(values, unit.bounds)
    assert verdict_of_row(Row(target, unit), found) == verdict


def test_seeds_that_were_seen_before_are_not_judged():
    figure = dataclasses.replace(
        FIGURES["induction/5a"],
        rows={"a": Row(math.nan, ACCURACY)},
        claims=(Within("a", high=0.5),),
        fresh=(6, 7),
    )
    values = {"a": np.array([0.9, 0.1, 0.2])}
    drawn = plots.bars({"": {"": np.ones(1)}}, [""], label="", of="")
    found = Judged(figure, Measured(values, drawn), (5, 6, 7))
    assert found.judged_seeds == [{"a": 0.1}, {"a": 0.2}]
    assert [*found.claims.values()] == [Verdict.HOLDS]
    assert found.estimates["a"].count == 3
    # If no seed is fresh, all are judged.
    only = Judged(figure, Measured({"a": np.array([0.9])}, drawn), (5,))
    assert only.verdict is Verdict.NOT_REPRODUCED


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_every_claim_can_fail(figure):
    """Rows in another order, or with other numbers, contradict it."""
    names = [*figure.rows]
    up = {name: 1e-3 * 3.0**k for k, name in enumerate(names)}
    down = dict(zip(names, reversed(up.values()), strict=True))
    zero, large = dict.fromkeys(names, 0.0), dict.fromkeys(names, 1e12)
    for claim in figure.claims:
        found = [claim.holds(each, figure.targets) for each in (up, down, zero, large)]
        assert False in found, str(claim)
