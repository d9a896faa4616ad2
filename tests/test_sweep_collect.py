"""`python -m sweeps collect` against the logs, read with only h5py and NumPy."""

import csv
import dataclasses
import json
import math
import shutil

import h5py
import numpy as np
import pytest
from older import unsealed, without_checksum

import icl
from icl import Start, Training
from icl.config import to_json
from icl.data import LowRankClasses
from icl.models import TransformerConfig
from icl.plugins import import_plugin
from icl.presets.induction import induction
from icl.runs import Log
from icl.tasks.exemplar_label import EvaluationSet
from icl.tasks.regression import LinearRegression
from icl.training.optimizers import Adam, Constant
from icl.training.schedules import Every, Exactly
from sweeps.folder import Folder
from sweeps.watch import collect, collect_command
from sweeps.watch._collect import differing


SHORT = Training(64, 8, evaluate_at=Every(24))
LONG = Training(96, 8, evaluate_at=Exactly((16, 40)))
METRICS = ("loss", "accuracy", "in_context_loss")
SETS = {"held": EvaluationSet(size=5), "seen": EvaluationSet(size=3)}


def tiny(**changes):
    base = induction(LowRankClasses(num_classes=60, num_exemplars=1, dim=6))
    changes = {"training": SHORT, "evaluations": SETS, **changes}
    return dataclasses.replace(
        base, model=TransformerConfig(d_model=8, num_heads=2), **changes
    )


def as_trained(run, experiment, events, steps):
    """Writes what training leaves in a folder, with invented numbers."""
    (run / "resume").mkdir(parents=True)
    (run / f"resume/{8 * steps:012d}.eqx").touch()
    (run / "config.json").write_text(json.dumps(to_json(experiment)))
    rng, log = np.random.default_rng(len(events)), Log()
    log.add_steps({m: rng.random(steps, np.float32) for m in ("loss", "grad_norm")})
    for event in events:
        log.add_evaluation(
            event,
            {
                name: {m: rng.random(each.size, np.float32) for m in METRICS}
                for name, each in SETS.items()
            },
        )
    log.write(run / "log.h5", 8)
    without_checksum(run / "log.h5")  # Tests edit this file.


def add_metric(file, path):
    """Adds a metric that other sets lack; float32 sums would round its numbers."""
    with h5py.File(file, "r+") as log:
        events = len(log["eval/iter"])
        rows = np.linspace(1e-8, 1e8, events * 7, dtype=np.float32)
        log[path] = rows.reshape(events, 7)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A study with four runs; one has not begun."""
    folder = Folder(tmp_path_factory.mktemp("made") / "study")
    adam = Adam(Constant(0.02))
    graft = f"Graft({str(folder.run('a'))!r}, until=0, checkpoint=64)"
    experiments = {
        "a": tiny(),
        "b": tiny(optimizer=adam, init_seed=9, start=Start(str(folder.run("a")), 64)),
        "c": tiny(training=LONG, edits=(graft, "Zero('blocks.1.attn.z', head=1)")),
        "late": tiny(init_seed=11),
    }
    with folder.claimed("ours", "smoke"):
        folder.begin("ours", "smoke", experiments, experiments, (), ())
    icl.run_experiment(experiments["a"], folder.run("a"))
    as_trained(folder.run("b"), experiments["b"], [0, 24, 48, 64], 8)
    as_trained(folder.run("c"), experiments["c"], [16, 40], 12)
    add_metric(folder.run("b") / "log.h5", "eval/seen/extra")
    return folder


@pytest.fixture
def study(made, tmp_path):
    """A copy in the same place, so that paths in the configs stay right."""
    backup = tmp_path / "backup"
    shutil.copytree(made.path, backup)
    yield made
    shutil.rmtree(made.path)
    shutil.copytree(backup, made.path)


def oracle(folder, run):
    """A run's rows, by set and sequences seen; each has its metrics by name."""
    found = {}
    with h5py.File(folder.run(run) / "log.h5") as log:
        events = log["eval/iter"][()]
        for name, group in log["eval"].items():
            if name == "iter":
                continue
            for metric, rows in group.items():
                for event, row in zip(events, rows[()], strict=True):
                    mean = math.fsum(map(float, row)) / len(row)
                    found.setdefault((name, event), {})[metric] = mean
        before = 0
        for event in events:
            at = log["train/iter"][()]
            inside = (at > before) & (at <= event)
            for metric in ("loss", "grad_norm"):
                if inside.any():
                    own = log[f"train/{metric}"][()][inside]
                    mean = math.fsum(map(float, own)) / len(own)
                    found.setdefault(("training", event), {})[metric] = mean
            before = event
    return found


def rows_of(table):
    return table.to_dict("records")


def check_rows(rows, folder, runs):
    """Checks that these are exactly the rows of the logs."""
    metrics = [*list(rows[0])[list(rows[0]).index("set") + 1 :]]
    for run in runs:
        wanted = oracle(folder, run)
        own = [row for row in rows if row["run"] == run]
        assert {(r["set"], r["sequences"]) for r in own} == set(wanted)
        assert len(own) == len(wanted)
        for row in own:
            expected = wanted[row["set"], row["sequences"]]
            for metric in metrics:
                mean = expected.get(metric, math.nan)
                # A mean of float64 numbers; NumPy sums them in another order.
                np.testing.assert_allclose(row[metric], mean, rtol=1e-14)
    assert {row["run"] for row in rows} == set(runs)


def test_the_columns_are_what_the_logs_hold(made):
    columns = collect(made.path)
    rows = rows_of(columns)
    check_rows(rows, made, ["a", "b", "c"])
    # Events at 0, 24, 48 and 64, for c also 16 and 40; at 0 there is no training row.
    assert len(rows) == 2 * (3 * 4 - 1) + 3 * 2
    assert all(columns[name].dtype == np.float64 for name in ("loss", "grad_norm"))
    assert np.isnan(columns["grad_norm"][columns["set"] == "held"]).all()
    assert np.isfinite(columns["extra"]).sum() == 4


def test_the_columns_tell_what_the_runs_differ_in(made):
    columns = collect(made.path)
    names = list(columns)
    fields = [
        "optimizer.learning_rate.rate",
        "training.num_sequences",
        "training.evaluate_at.type",
        "training.evaluate_at.sequences",
        "edits",
        "init_seed",
        "start.run",
        "start.checkpoint",
    ]
    assert names[0] == "run"
    assert sorted(names[1 : names.index("sequences")]) == sorted(fields)
    assert names[names.index("sequences") + 1] == "set"
    first = {row["run"]: row for row in rows_of(columns)}
    assert [first[run]["init_seed"] for run in "abc"] == [3, 9, 3]
    assert columns["init_seed"].dtype == np.int64
    assert first["b"]["optimizer.learning_rate.rate"] == 0.02
    assert [first[run]["start.run"] for run in "abc"] == ["", "a", ""]
    assert first["b"]["start.checkpoint"] == 64
    assert math.isnan(first["a"]["start.checkpoint"])
    assert first["a"]["edits"] == ""
    assert first["c"]["edits"] == (
        "Graft('a', until=0, checkpoint=64); Zero('blocks.1.attn.z', head=1)"
    )
    assert first["a"]["training.evaluate_at.sequences"] == "24"
    assert first["c"]["training.evaluate_at.sequences"] == "16; 40"


def test_the_file_holds_the_columns(study, capsys):
    assert collect_command([str(study.path)]) == 0
    captured = capsys.readouterr()
    file = study.path / "collected.h5"
    assert captured.out == f"28 rows of 3 runs: {file}\n"
    assert captured.err == "late has logged nothing yet\n"
    columns = collect(study.path)
    with h5py.File(file) as opened:
        assert [*opened.attrs["columns"]] == [*columns]
        assert set(opened) == set(columns)
        assert (opened.attrs["study"], opened.attrs["scale"]) == ("ours", "smoke")
        assert [*opened.attrs["unfinished"]] == ["late"]
        assert opened["sequences"].attrs["units"] == "sequences seen"
        assert opened["loss"].attrs["units"] == "nats"
        assert opened["in_context_loss"].attrs["units"] == "nats"
        assert "units" not in opened["accuracy"].attrs
        for name, values in columns.items():
            if values.dtype == "str":
                info = h5py.check_string_dtype(opened[name].dtype)
                assert (info.encoding, info.length) == ("utf-8", None)
                assert [*opened[name].asstr()[()]] == [*values]
            else:
                assert opened[name].dtype == values.dtype
                np.testing.assert_array_equal(opened[name][()], values)
    assert not [*study.path.glob(".*.tmp")]


def test_the_text_file_holds_the_same_numbers(study, tmp_path):
    out = tmp_path / "table.csv"
    assert collect_command([str(study.path), "--out", str(out)]) == 0
    with open(out, newline="") as stream:
        rows = list(csv.DictReader(stream))
    columns = collect(study.path)
    assert [*rows[0]] == [*columns]
    for name, values in columns.items():
        texts = [row[name] for row in rows]
        if values.dtype == "str":
            assert texts == [*values]
        else:
            np.testing.assert_array_equal([*map(float, texts)], values)


@pytest.mark.parametrize("name", ["collected.h5", "collected.csv"])
def test_an_earlier_table_is_replaced(study, tmp_path, name):
    out = tmp_path / name
    command = [str(study.path), "--out", str(out)]
    collect_command(command)
    before = out.read_bytes()
    assert collect_command([*command, "--only", "a"]) == 0
    assert len(out.read_bytes()) < len(before)


@pytest.mark.parametrize("name", ["classes.h5", "notes.csv"])
def test_another_file_is_not_replaced(study, tmp_path, name):
    out = tmp_path / name
    out.write_bytes(b"mine")
    if out.suffix == ".h5":
        with h5py.File(out, "w") as file:
            file["features"] = np.ones(3)
    before = out.read_bytes()
    refused("exists and is not a table of this command", study.path, "--out", out)
    assert out.read_bytes() == before


def test_only_some_runs(study, capsys):
    assert collect_command([str(study.path), "--only", "[bx]", "--only", "c"]) == 0
    assert capsys.readouterr().err == ""
    with h5py.File(study.path / "collected.h5") as opened:
        assert {*opened["run"].asstr()[()]} == {"b", "c"}
        # The field in which it differs from all runs of the study.
        assert "init_seed" in opened
        assert opened.attrs["unfinished"].shape == (0,)


def test_a_damaged_log_is_named_and_the_others_collected(study, capsys):
    log = study.run("a") / "log.h5"
    log.write_bytes(log.read_bytes()[:3000])
    assert collect_command([str(study.path)]) == 1
    err = capsys.readouterr().err.splitlines()
    assert err[0] == "late has logged nothing yet"
    assert err[1].startswith(f"a cannot be read: {log} is not a readable log: ")
    with h5py.File(study.path / "collected.h5") as opened:
        assert {*opened["run"].asstr()[()]} == {"b", "c"}
    with pytest.warns(UserWarning, match="a/log.h5 is not a readable log"):
        columns = collect(study.path)
    check_rows(rows_of(columns), study, ["b", "c"])


def without(log, name):
    del log[name]


def as_number(log, name):
    del log[name]
    log[name] = 3.0


def shorter(log, name):
    rows = log[name][()]
    del log[name]
    log[name] = rows[:-1]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (without, "eval/iter"),
        (as_number, "eval/held/loss"),
        (shorter, "eval/held/loss"),
    ],
)
def test_whatever_is_wrong_with_a_log(study, change, name):
    with h5py.File(study.run("a") / "log.h5", "r+") as log:
        change(log, name)
    with pytest.warns(UserWarning, match="a cannot be read: "):
        columns = collect(study.path)
    assert {*columns["run"]} == {"b", "c"}


def test_a_set_named_as_the_steps_is_refused(study):
    with h5py.File(unsealed(study.run("a")) / "log.h5", "r+") as log:
        log.move("eval/held", "eval/training")
    with pytest.warns(UserWarning, match="an evaluation set must not be named"):
        collect(study.path)


def test_a_run_that_goes_on_is_as_far_as_it_is(study, capsys):
    (study.run("b") / "resume/000000000064.eqx").unlink()
    log = study.run("b") / "log.h5"
    # One step beyond the last event.
    Log.read(log).truncated(7, 48).write(log, 8)
    assert collect_command([str(study.path)]) == 0
    columns = collect(study.path)
    check_rows(rows_of(columns), study, ["a", "b", "c"])
    assert columns["sequences"][columns["run"] == "b"].max() == 48
    with h5py.File(study.path / "collected.h5") as opened:
        assert [*opened.attrs["unfinished"]] == ["b", "late"]


def test_losses_that_are_not_finite_stay_so(study):
    with h5py.File(unsealed(study.run("a")) / "log.h5", "r+") as log:
        log["eval/held/loss"][1, 0] = np.inf
        log["train/loss"][0] = np.nan
    columns = collect(study.path)
    of_a = columns["run"] == "a"
    held = columns["loss"][of_a & (columns["set"] == "held")]
    assert held.iloc[1] == np.inf
    assert np.isnan(columns["loss"][of_a & (columns["set"] == "training")].iloc[0])


def refused(match, *arguments):
    with pytest.raises(ValueError, match=match) as caught:
        collect_command([str(argument) for argument in arguments])
    assert "\n" not in str(caught.value)


def test_what_is_refused(study, tmp_path):
    refused("is not the folder of a study", tmp_path)
    refused("no run matches 'lat'; did you mean 'late'", study.path, "--only", "lat")
    refused("no run matches '%'; runs: a, b, c, late", study.path, "--only", "%")
    refused("t.txt must end in .h5 or .csv", study.path, "--out", tmp_path / "t.txt")
    refused("there is no folder", study.path, "--out", tmp_path / "no/t.h5")
    refused("no run of .* has a log", study.path, "--only", "late")
    assert not (study.path / "collected.h5").exists()


@pytest.fixture
def made_with(study):
    """Notes in the study that it was launched with these plug-ins."""

    def write(*names):
        file = study.sweep / "study.json"
        file.write_text(json.dumps({**study.read(), "plugins": names}))

    return write


def test_a_plug_in_that_is_gone_matters_to_who_needs_it(study, made_with, capsys):
    gone = "/gone/study.py"
    made_with(gone, "gone_too.runs")
    assert collect_command([str(study.path)]) == 0
    assert capsys.readouterr().err == "late has logged nothing yet\n"
    made_of(study, "c", "OfThatStudy")
    assert collect_command([str(study.path)]) == 1
    *_, problem = capsys.readouterr().err.splitlines()
    assert problem.startswith("c cannot be read: config: type must be one of Ex")
    assert problem.endswith(f"with --import {gone} --import gone_too.runs)")
    with pytest.warns(UserWarning, match="c cannot be read.* --import /gone/study"):
        assert {*collect(study.path)["run"]} == {"a", "b"}


def made_of(study, run, kind):
    """Gives a run a plug-in's task."""
    file = study.run(run) / "config.json"
    config = json.loads(file.read_text()) if file.exists() else study.configs[run]
    file.write_text(json.dumps({**config, "task": {"type": kind}}))


def test_a_study_folder_names_plug_ins_but_does_not_import_them(
    study, made_with, tmp_path, capsys
):
    """A folder comes from anywhere: only the user says which code runs."""
    plugin, ran = tmp_path / "tasks.py", tmp_path / "ran"
    plugin.write_text(
        f"""
import dataclasses
from pathlib import Path
from icl.tasks.regression import LinearRegression

@dataclasses.dataclass(frozen=True)
class OfAStudy(LinearRegression):
    loss_unit = "bits"
    summaries = {{}}

Path({str(ran)!r}).touch()
"""
    )
    made_with(str(plugin))
    made_of(study, "c", "OfAStudy")
    assert collect_command([str(study.path)]) == 1
    assert f"import {plugin}" in capsys.readouterr().err
    assert not ran.exists()
    import_plugin(str(plugin))
    assert collect_command([str(study.path), "--only", "c"]) == 0
    with h5py.File(study.path / "collected.h5") as file:
        assert file["loss"].attrs["units"] == "bits"


@pytest.mark.parametrize(
    ("unit", "other", "units"),
    [
        ("", LinearRegression(), (None, None)),
        ("bits", LinearRegression(), ("bits", "bits")),
        ("bits", induction().task, (None, "bits")),
    ],
    ids=["no unit", "one unit", "two units"],
)
def test_losses_have_the_unit_of_their_tasks(tmp_path, monkeypatch, unit, other, units):
    """Both runs have `loss`; only the first one has `query_loss`."""
    monkeypatch.setattr(LinearRegression, "loss_unit", unit)
    monkeypatch.setattr(LinearRegression, "summaries", {})
    folder, names = Folder(tmp_path / "study"), "ab"
    tasks = LinearRegression(), other
    runs = {n: tiny(task=t, data=None) for n, t in zip(names, tasks, strict=True)}
    with folder.claimed("ours", "smoke"):
        folder.begin("ours", "smoke", runs, runs, (), ())
    for name in names:
        as_trained(folder.run(name), runs[name], [0, 24], 3)
    for name in names:
        with h5py.File(folder.run(name) / "log.h5", "r+") as log:
            for group in SETS:
                rows = log[f"eval/{group}/in_context_loss"][()]
                del log[f"eval/{group}/in_context_loss"]
                if name == "a":
                    log[f"eval/{group}/query_loss"] = rows
    assert collect_command([str(folder.path)]) == 0
    with h5py.File(folder.path / "collected.h5") as opened:
        found = [opened[x].attrs.get("units") for x in ("loss", "query_loss")]
        assert found == [*units]
        assert "units" not in opened["grad_norm"].attrs
        assert opened["sequences"].attrs["units"] == "sequences seen"


# The columns of differing fields


def values_of(*configs, folder="/study"):
    found = differing(folder, {f"r{k}": config for k, config in enumerate(configs)})
    return {name: [*values] for name, values in found.items()}


@pytest.mark.parametrize(
    ("configs", "wanted"),
    [
        (
            [{"a": 1, "b": {"c": 2, "d": None}}, {"a": 1, "b": {"c": 3}}],
            {"b.c": [2, 3]},
        ),
        ([{"a": [1, 2]}, {"a": [1]}], {"a": ["1; 2", "1"]}),
        ([{"a": {"b": "x"}}, {"a": None}], {"a.b": ["x", ""]}),
        ([{"a": {"type": "x"}}, {"a": None}], {}),
        ([{"a": {"type": "x"}}, {"a": {"type": "y"}}], {"a.type": ["x", "y"]}),
        ([{"a": 1}], {}),
    ],
)
def test_fields_that_are_the_same_are_left_out(configs, wanted):
    assert values_of(*configs) == wanted


def test_only_paths_into_the_study_are_cut():
    texts = ["/study/main", "G('/study/m', x=\"/study/n\")", "/x/study/main", "/studyy"]
    found = values_of({"a": texts[0]}, {"a": texts[1]}, {"a": texts[2]}, {})
    assert found["a"] == ["main", "G('m', x=\"n\")", "/x/study/main", ""]


@pytest.mark.parametrize(
    ("values", "dtype", "wanted"),
    [
        ({"r": 1, "s": 2}, np.int64, [1, 2]),
        ({"r": 1}, np.float64, [1.0, math.nan]),
        ({"r": 1, "s": 0.1}, np.float64, [1.0, 0.1]),
        ({"r": True, "s": False}, bool, [True, False]),
        ({"r": True}, "str", ["true", ""]),
        ({"r": True, "s": 1}, "str", ["true", "1"]),
        ({"r": 3, "s": "3"}, "str", ["3", "3"]),
        ({"s": "naïve"}, "str", ["", "naïve"]),
    ],
)
def test_a_column_is_of_one_type(values, dtype, wanted):
    configs = {run: {"x": values.get(run)} for run in "rs"}
    found = differing("/study", configs)["x"]
    assert found.dtype == dtype
    assert [*found.index] == ["r", "s"]
    np.testing.assert_array_equal(found, wanted)
