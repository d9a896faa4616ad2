"""Inputs that no user should give: one line on stderr, status 2, and no harm."""

import dataclasses
import json
import math
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from commands import call
from small import small

import opto
from icl import (
    Experiment,
    measures,
    memory,
    plots,
    replay,
)
from icl.cli.commands import guarded, main
from icl.cli.evaluate import evaluate
from icl.config import from_json, to_json, with_fields
from icl.edits.ranked import RankedHeads
from icl.experiments import run_experiment
from icl.experiments.sets import check_not_dense
from sweeps.cli import main as sweeps
from sweeps.execute._local import _Started
from sweeps.folder import Folder, Job, Report


def refused(capsys, program, *arguments):
    """Runs a command that must be refused; returns its one line on stderr."""
    status, out, err = call(capsys, *arguments, program=program)
    assert (status, out, err.count("\n")) == (2, "", 1)
    return err


# Pickles


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return os.mkdir, (str(self.file),)


@dataclasses.dataclass
class Submitted:
    """The attributes of a submitted job that the executor reads."""

    paths: object

    class _process:
        @staticmethod
        def poll():
            return 0


@dataclasses.dataclass
class Paths:
    result_pickle: Path
    stderr: Path


@dataclasses.dataclass
class SomeWork:
    job: Job
    configs: dict


def test_the_outcome_of_a_job_is_never_unpickled(tmp_path):
    folder = Folder(tmp_path)
    for part in ("runs", "logs"):
        (folder.sweep / part).mkdir(parents=True)
    paths = Paths(folder.logs / "1_0_result.pkl", folder.logs / "1_0_log.err")
    paths.result_pickle.write_bytes(pickle.dumps(Trap(tmp_path / "harm")))
    later = 2**33
    os.utime(paths.result_pickle, (later, later))
    config = to_json(small())
    work = SomeWork(Job("000", ("a", "b"), (), 1), {"a": config, "b": config})

    def started():
        before = {run: folder.report(run) for run in ("a", "b")}
        return _Started(work, Submitted(paths), before)  # pyright: ignore

    folder.write_report("a", Report("failed", error="old"))
    assert started().error(folder) == "its process was killed"
    paths.stderr.write_bytes(b"first\nValueError: \xff last\n\n")
    assert started().error(folder) == "ValueError: \ufffd last"
    job = started()
    folder.write_report("a", Report("failed", error="new"))
    folder.write_report("b", Report("failed", error="other"))
    assert job.error(folder) == "new; other"
    assert not (tmp_path / "harm").exists()
    # A failed member does not fail the job if another member trained.
    (tmp_path / "b" / "resume").mkdir(parents=True)
    (tmp_path / "b" / "resume" / "000000000640.eqx").touch()
    job = started()
    folder.write_report("a", Report("failed", error="again"))
    folder.write_report("b", Report("finished"))
    assert job.error(folder) is None


def test_nothing_here_unpickles():
    root = Path(__file__).parents[1]
    for package in ("icl", "opto", "sweeps"):
        for file in (root / package).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            if file == root / "icl/compat/limits_of_icl/_state.py":
                # Its unpickler calls nothing (tests/test_limits_of_icl.py).
                assert "def find_class" in text
                assert not re.search(r"pickle\.loads?\(", text)
                continue
            assert "import pickle" not in text, file
            assert "allow_pickle=True" not in text, file
            assert "torch.load" not in text or "weights_only=True" in text, file


# Studies


# Options


EMPTY = [
    (main, "demo", "--out", ""),
    (main, "eval", ""),
    (sweeps, "figure", "toys", "--out="),
]


@pytest.mark.parametrize("arguments", EMPTY, ids=lambda x: " ".join(x[1:]))
def test_an_empty_value_is_refused(capsys, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    assert " is empty: give it a value" in refused(capsys, *arguments)
    assert not [*tmp_path.iterdir()]


# Encodings


# Figures


@pytest.mark.parametrize("first", [math.inf, 2e3])
@pytest.mark.parametrize("second", [math.inf, 3e3])
@pytest.mark.filterwarnings("error")
def test_what_is_never_learnt_can_be_drawn(first, second):
    lines = {"classes": {"a": {50: first, 100: math.inf}}, "labels": {"a": {5: second}}}
    figure = plots.learning_times(lines, by="left to learn")
    figure._repr_png_()
    assert figure.drawn["classes/a"].values[1] == math.inf


@pytest.mark.parametrize("name", [r"$\frac{$", r"a_b^c%\d$ $"])
def test_names_are_drawn_as_they_stand(tmp_path, name):
    steps, values = np.arange(3.0), np.random.rand(3, 2)
    curves = plots.traces(
        steps, {name: values, "b": values}, groups=[name, "c"], label=name, by=name
    )
    times = plots.learning_times({name: {name: {2: 1e3, 4: 1.2e3}}}, by=name)
    for number, figure in enumerate((curves, times)):
        plots.save(figure, tmp_path / f"{number}.svg")
        # SVG keeps text as text; mathtext would split it.
        text = (tmp_path / f"{number}.svg").read_text(encoding="utf-8")
        assert f">{name}<" in text
        assert "mathdefault" not in text
        figure._repr_png_()


# Sizes


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ("data.dim=1000000000000", "data: LowRank.*dim=1000000000000.* needs .* TiB"),
        ("task.labels.num_labels=1000000000000", "cannot have all 1000000000000"),
    ],
)
def test_huge_sizes_are_refused_before_anything_is_made(change, match):
    with pytest.raises(ValueError, match=match) as error:
        with_fields(small(), [change]).build()
    assert "\n" not in str(error.value)


def test_a_size_is_refused_by_what_the_machine_has(monkeypatch):
    monkeypatch.setattr(memory, "machine_bytes", lambda: 2**20)
    memory.check_memory("it", 2**20)
    with pytest.raises(ValueError, match="^it needs at least 3.0 MiB .* has 1.0 MiB$"):
        memory.check_memory("it", 3 * 2**20)


def test_out_of_memory_at_run_time_is_one_line(capsys):
    def command():
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of\nmemory")

    assert guarded("icl", command) == 1
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert "training.batch_size" in text


# Runs


def test_a_set_named_dense_is_refused(tmp_path):
    base = small()
    some = base.evaluations["train"]
    for name in ("dense", "dense:x"):
        experiment = dataclasses.replace(base, evaluations={name: some})
        with pytest.raises(ValueError, match=f"cannot be named '{name}'"):
            run_experiment(experiment, tmp_path / "run")
    assert not [*tmp_path.iterdir()]
    check_not_dense(["densely", "train"])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (
            lambda _: dataclasses.replace(small(), edits=(opto.Zero("a", head=1),)),
            r"""each of edits must be a text: write "Zero\('a', head=1\)\"""",
        ),
        (
            lambda _: dataclasses.replace(small(), edits="Zero('a')"),
            r"""edits must be a tuple: write \("Zero\('a'\)",\)""",
        ),
        (lambda run: replayed(run, edits=5), "edits is a sequence of edits, got one"),
    ],
)
def test_values_of_another_kind_are_refused(small_run, mistake, message):
    with pytest.raises(ValueError, match=message):
        mistake(small_run)


def replayed(run, **settings):
    return replay(run, {"strength": measures.induction_strength()}, **settings)


# Studies' folders


STUDY = {"study": "rates", "scale": "smoke", "plugins": [], "runs": {}}
JOB = {"name": "000", "runs": ["a"], "needs": [], "cpu_devices": 1}


@pytest.fixture
def study(tmp_path):
    """Makes a study's folder; returns a function that rewrites its files."""
    (tmp_path / "_sweep" / "jobs").mkdir(parents=True)

    def write(name, content):
        (tmp_path / "_sweep" / name).write_text(json.dumps(content))
        return tmp_path

    write("study.json", STUDY | {"folder": str(tmp_path)})
    return write


@pytest.mark.parametrize("number", ["-1", "x"])
def test_no_signal_is_sent_to_what_is_no_process(capsys, study, monkeypatch, number):
    def kill(*_):
        raise AssertionError("a signal was sent")

    monkeypatch.setattr(os, "kill", kill)
    place = {"cluster": "local", "job_id": number, "process": "somewhere"}
    path = study("jobs/000.json", JOB | place)
    text = refused(capsys, sweeps, "cancel", path)
    assert f"job_id must be the number of a process, got {number!r}" in text


# Command lines


def test_warnings_are_one_line_each():
    script = """
import sys, warnings
from icl.cli import guarded
def command():
    warnings.warn("a file\\n  is gone")
    warnings.warn("old", FutureWarning)
    return 0
sys.exit(guarded("icl", command))
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert lines[0] == "icl: warning: a file is gone"
    assert "FutureWarning: old" in lines[1]


NAMES = ["ünï… a[1]*", 'it\'s "q" c,d:e']


@pytest.mark.parametrize("name", NAMES)
def test_runs_of_any_name(capsys, tmp_path, small_run, name):
    run = tmp_path / name
    shutil.copytree(small_run, run)
    capsys.readouterr()
    # A run grafted into itself does not change.
    assert evaluate([str(run)]) is None
    plain = capsys.readouterr().out
    assert evaluate([str(run), "--edit", f"Graft({str(run)!r}, until=0)"]) is None
    assert capsys.readouterr().out == plain
    ranked = RankedHeads(str(run), "previous_token", 0)
    edits = ("Zero('blocks.0.attn.z', head={it})",)
    experiment = small(edits=edits, heads={"it": ranked})
    assert f"heads={{'it': {ranked}" in repr(experiment)
    assert from_json(Experiment, json.loads(json.dumps(to_json(experiment)))).build()
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / f"{name}.png"
    plots.save(plots.learning_curves(np.arange(2.0), {name: np.ones((2, 1))}), out)
    assert out.is_file()
