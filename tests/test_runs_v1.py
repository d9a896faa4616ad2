"""Runs in the first format (`../shared/data/runs_v1`) can be read and resumed.

Version 0.1.0 wrote them. Its configs name no type where only one type existed.
"""

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

import icl
from icl import measures
from icl.cli import guarded, main
from icl.config import changed, from_json, to_json
from icl.experiments import evaluate


RUNS = Path(__file__).parents[2] / "shared/data/runs_v1"
NAMES = ("plain", "edited", "interrupted")
# Another machine compiled their programs.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}

pytestmark = pytest.mark.skipif(not RUNS.is_dir(), reason="needs ../shared/data")


@pytest.fixture(scope="module", params=NAMES)
def run(request, tmp_path_factory):
    """A copy, because replays and figures write into the folder."""
    folder = tmp_path_factory.mktemp("runs_v1") / request.param
    return shutil.copytree(RUNS / request.param, folder)


def test_their_configs_name_no_type_and_are_written_with_it(run):
    stored = json.loads((run / "config.json").read_text())
    assert {"type"}.isdisjoint({*stored["task"], *stored["model"]})
    experiment = icl.load(run).experiment
    written = to_json(experiment)
    assert written["task"]["type"] == "ExemplarLabel"
    assert written["model"]["type"] == "TransformerConfig"
    assert {x["type"] for x in written["evaluations"].values()} == {"EvaluationSet"}
    assert from_json(icl.Experiment, written) == experiment
    assert changed(stored, experiment) == []


def test_their_models_evaluate_to_their_own_logs(run):
    log = icl.load(run).run.log
    there = set(log.events.tolist())
    compared = 0
    for checkpoint in icl.load(run).run.checkpoints:
        if checkpoint not in there:
            continue
        trained = icl.load(run, checkpoint)
        event = log.events.tolist().index(checkpoint)
        for name, batch in trained.evaluations.items():
            found = evaluate(trained.model, trained.task, batch, edits=trained.edits)
            logged = log.evaluations[name]
            assert found.keys() == logged.keys()
            for metric, rows in found.items():
                np.testing.assert_allclose(rows, logged[metric][event], **CLOSE)
                compared += 1
    assert compared


def test_they_are_replayed(run):
    trained = icl.load(run)
    asked = {
        "loss": measures.task_metric(trained.task, "loss"),
        "strength": measures.induction_strength(),
    }
    found = icl.replay(run, asked)
    log = trained.run.log
    events = np.searchsorted(log.events, found.sequences)
    known = np.isin(found.sequences, log.events)
    assert known.any()
    logged = log.evaluations["train"]["loss"].mean(1)
    np.testing.assert_allclose(found["loss"][known], logged[events[known]], **CLOSE)
    assert np.isfinite(found["strength"]).all()


def test_they_are_drawn_and_reported(run, capsys):
    for command in (["plot", str(run), "learning", "induction"], ["report", str(run)]):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == 0, capsys.readouterr().err
    files = {file.name for file in (run / "figures").iterdir()}
    assert {"learning.png", "induction.png"} <= files
    assert (run / "report.html").stat().st_size > 10_000


def test_the_interrupted_one_goes_on_to_where_the_plain_one_ended(tmp_path):
    folder = shutil.copytree(RUNS / "interrupted", tmp_path / "interrupted")
    # That version had one device for each batch; here, two devices share it.
    with pytest.warns(UserWarning, match="begun with devices=1 for each batch"):
        status = guarded("icl", lambda: _train(str(folder), "--out", str(folder)))
    assert status == 0
    ours, theirs = icl.load(folder), icl.load(RUNS / "plain")
    pairs = zip(jax.tree.leaves(ours.model), jax.tree.leaves(theirs.model), strict=True)
    for leaf, other in pairs:
        if isinstance(leaf, jax.Array):
            np.testing.assert_allclose(leaf, other, **CLOSE)
    log, plain = ours.run.log, theirs.run.log
    assert log.events.tolist() == plain.events.tolist()
    assert log.train.keys() == plain.train.keys()
    for name, rows in plain.train.items():
        np.testing.assert_allclose(log.train[name], rows, **CLOSE)
    assert log.evaluations.keys() == plain.evaluations.keys()
    for name, sets in plain.evaluations.items():
        for metric, rows in sets.items():
            found = log.evaluations[name][metric]
            np.testing.assert_allclose(found, rows, err_msg=metric, **CLOSE)


def _train(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["train", *arguments, "--resume"])
    return ended.value.code
