"""The numbers that loggers get, and where these go, with and without the extras."""

import contextlib
import dataclasses
import importlib
import importlib.machinery
import importlib.util
import json
import os
import re
import sys
import types

import h5py
import numpy as np
import pytest
from regression import examples, member, regression

import icl
import icl.compile
from icl.data import LowRankClasses
from icl.models import TransformerConfig
from icl.presets.induction import induction
from icl.runs import open_run
from icl.tasks.exemplar_label import EvaluationSet
from icl.training import fit, Training
from icl.training.loggers import check_logger, Logger, open_logger, Several
from icl.training.optimizers import Adam, Constant
from icl.training.schedules import Every


class Recorder:
    """A logger that keeps what it gets, and fails on request."""

    def __init__(self, failing=()):
        self.told, self.closed, self.failing = [], 0, failing

    def log(self, sequences, metrics):
        if "log" in self.failing:
            raise OSError("no  space\nleft")
        self.told.append((sequences, dict(metrics)))

    def close(self):
        self.closed += 1
        if "close" in self.failing:
            raise OSError("still none")


def tiny():
    """An experiment of 17 steps with nine evaluations."""
    return dataclasses.replace(
        induction(LowRankClasses(num_classes=60, num_exemplars=1, dim=6)),
        model=TransformerConfig(d_model=8, num_heads=2),
        optimizer=Adam(Constant(0.02)),
        training=Training(17 * 8, 8, evaluate_at=Every(17)),
        evaluations={"held": EvaluationSet(size=6)},
    )


# What training sends


def test_a_logger_is_told_what_the_log_holds(tmp_path):
    recorder = Recorder()
    icl.run_experiment(tiny(), tmp_path / "run", logger=recorder)
    assert recorder.closed == 1
    looks = [(n, m) for n, m in recorder.told if not any("train/" in k for k in m)]
    steps = [(n, m) for n, m in recorder.told if any("train/" in k for k in m)]
    with h5py.File(tmp_path / "run/log.h5") as log:
        assert [n for n, _ in looks] == log["eval/iter"][()].tolist()
        rows = {
            f"eval/{name}/{metric}": rows[()]
            for name, group in log["eval"].items()
            if isinstance(group, h5py.Group)
            for metric, rows in group.items()
        }
        train = {f"train/{name}": x[()] for name, x in log["train"].items()}
        assert (train.pop("train/iter") == 8 * np.arange(1, 18)).all()
    assert {name.split("/")[1] for name in rows} == {"held"}
    for event, (_, metrics) in enumerate(looks):
        assert metrics.keys() == rows.keys()
        for name, value in metrics.items():
            assert type(value) is float
            wanted = rows[name][event].astype(np.float64).mean()
            np.testing.assert_allclose(value, wanted, rtol=1e-6)
    # Each mean covers the steps since the last one; no step is left out.
    ends = [n // 8 for n, _ in steps]
    assert ends == sorted(set(ends))
    assert ends[-1] == 17
    for start, end, (_, metrics) in zip([0, *ends], ends, steps, strict=False):
        assert metrics.keys() == train.keys()
        for name, value in metrics.items():
            wanted = train[name][start:end].astype(np.float64).mean()
            np.testing.assert_allclose(value, wanted, rtol=1e-6)


# Checks before anything starts


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("tensorbord", "no logger 'tensorbord'; did you mean 'tensorboard'?"),
        ("wnb:p", "no logger 'wnb:p'; did you mean 'wandb'?"),
        ("", "no logger ''; choose tensorboard, wandb or wandb:PROJECT"),
        ("tensorboard:p", "tensorboard takes no project, got 'tensorboard:p'"),
    ],
)
def test_an_unknown_logger_is_refused(text, error, tmp_path):
    open_it = lambda text: open_logger(text, name="", folder=tmp_path, config={})
    for check in (check_logger, open_it):
        with pytest.raises(ValueError, match=error) as caught:
            check(text)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "package"), [("tensorboard", "tensorboardX"), ("wandb", "wandb")]
)
def test_an_extra_that_is_not_there_is_named(name, package, tmp_path, monkeypatch):
    # A folder in which W&B wrote looks like a package to Python.
    (tmp_path / package).mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for module in [m for m in sys.modules if m.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    assert importlib.util.find_spec(package) is not None
    error = rf"needs {package}, which is not installed: make EXTRA={name}, or"
    with pytest.raises(ValueError, match=error):
        check_logger(name)


def small(out, loggers, count=1, **fields):
    """Trains linear regressions side by side, each into its folder."""
    task = regression()
    held = {"held": examples(task, 20)}
    members = [
        member(**{"task": task, "train_seed": k, "evaluations": held, **fields})
        for k in range(count)
    ]
    with contextlib.ExitStack() as stack:
        opened = [open_run(out / str(k), {"seed": k}) for k in range(count)]
        runs = [stack.enter_context(run) for run in opened]
        training = Training(17 * 8, 8, evaluate_at=Every(17))
        return fit(members, training, runs=runs, loggers=loggers)


# The layer between training and a logger


@pytest.fixture
def fake(monkeypatch):
    """Pretends that tensorboard is installed; returns a function to set its logger."""
    spec = importlib.machinery.ModuleSpec("tensorboard", None, origin="here")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    module = types.ModuleType("icl.training._tensorboard")
    monkeypatch.setitem(sys.modules, "icl.training._tensorboard", module)

    def install(make):
        vars(module)["TensorBoard"] = make

    return install


def opened(folder, text="tensorboard", config=None, name="name"):
    return open_logger(text, name=name, folder=folder, config=config or {})


def test_nothing_is_made_before_the_first_number(fake, tmp_path):
    made, inner = [], Recorder()
    fake(lambda *arguments: made.append(arguments) or inner)
    logger = opened(tmp_path / "tb", config={"a": 1})
    assert isinstance(logger, Logger)
    assert not made
    logger.log(8, {"train/loss": 1.0})
    logger.log(16, {"train/loss": 0.5})
    assert made == [(tmp_path / "tb", {"a": 1})]
    logger.close()
    logger.close()
    logger.log(24, {"train/loss": 0.2})
    assert [n for n, _ in inner.told] == [8, 16]
    assert inner.closed == 1
    opened(tmp_path / "other").close()
    assert len(made) == 1


def test_a_logger_that_fails_warns_once_and_the_training_goes_on(fake, tmp_path):
    inner = Recorder(["log", "close"])
    fake(lambda *_: inner)
    with pytest.warns(UserWarning, match="tensorboard failed.*: no space left") as seen:
        [result] = small(tmp_path, [opened(tmp_path / "tb")])
    assert len(seen) == 1
    assert len(result.log.train["loss"]) == 17
    assert inner.closed == 1


def test_a_logger_that_cannot_be_set_up_ends_the_training(fake, tmp_path):
    def make(*_):
        raise RuntimeError("nobody is\n  logged in")

    fake(make)
    error = "^the logger tensorboard could not be set up: nobody is logged in$"
    with pytest.raises(ValueError, match=error):
        small(tmp_path / "run", [opened(tmp_path)])


def test_a_package_that_does_not_import_is_said_at_once(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "icl.training._wandb", raising=False)
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    (tmp_path / "wandb.py").write_text("raise TypeError('protobuf is\\nold')")
    monkeypatch.syspath_prepend(tmp_path)
    check_logger("wandb")
    with pytest.raises(
        ValueError, match="^the logger wandb cannot be imported: protobuf "
    ):
        opened(tmp_path, "wandb")


# TensorBoard


def read_events(folder):
    """The scalars and texts that TensorBoard reads: `(step, value)` by tag."""
    module = "tensorboard.backend.event_processing.event_accumulator"
    accumulator = pytest.importorskip(module)
    read = accumulator.EventAccumulator(
        str(folder), {accumulator.SCALARS: 0, accumulator.TENSORS: 0}
    )
    read.Reload()
    tags = read.Tags()
    scalars = {t: [(e.step, e.value) for e in read.Scalars(t)] for t in tags["scalars"]}
    texts = {
        t: [(e.step, e.tensor_proto.string_val[0].decode()) for e in read.Tensors(t)]
        for t in tags["tensors"]
    }
    return scalars, texts


def test_tensorboard_reads_what_a_run_wrote(tmp_path):
    pytest.importorskip("tensorboardX")
    config = {"seed": 0, "lines": ["one", {"two": None}]}
    # The run's own folder, which exists only once training starts.
    recorder, logger = Recorder(), opened(tmp_path / "0/tensorboard", config=config)
    small(tmp_path, [Several([recorder, logger])])
    scalars, texts = read_events(tmp_path / "0/tensorboard")
    assert len(recorder.told) > 9
    wanted = {}
    for sequences, metrics in recorder.told:
        for name, value in metrics.items():
            wanted.setdefault(name, []).append((sequences, float(np.float32(value))))
    assert scalars == wanted
    [(step, text)] = texts["config/text_summary"]
    assert step == 0
    assert all(line.startswith("    ") for line in text.splitlines())
    assert json.loads(text) == config


def test_tensorboard_shows_a_resumed_run_once(tmp_path, caplog):
    pytest.importorskip("tensorboardX")
    killed = opened(tmp_path, config={"session": 1})
    for sequences in (0, 8, 16, 24):
        killed.log(sequences, {"train/loss": 1.0})
    resumed = opened(tmp_path, config={"session": 2})
    for sequences in (12, 20):
        resumed.log(sequences, {"train/loss": 2.0, "train/accuracy": float("nan")})
    killed.close()
    resumed.close()
    scalars, texts = read_events(tmp_path)
    assert scalars["train/loss"] == [(0, 1.0), (8, 1.0), (12, 2.0), (20, 2.0)]
    assert [step for step, _ in scalars["train/accuracy"]] == [12, 20]
    assert np.isnan([value for _, value in scalars["train/accuracy"]]).all()
    shown = texts["config/text_summary"]
    sessions = [(step, json.loads(text)["session"]) for step, text in shown]
    assert sessions == [(0, 1), (12, 2)]
    assert "tensorboardX" not in caplog.text  # Undefined numbers are no news.


# W&B


class FakeRun:
    def __init__(self, **options):
        self.options, self.metrics, self.rows, self.exits = options, [], [], []

    def define_metric(self, name, step_metric=None):
        self.metrics.append((name, step_metric))

    def log(self, row):
        self.rows.append(row)

    def finish(self, exit_code):
        self.exits.append(exit_code)


@pytest.fixture
def fake_wandb(monkeypatch):
    """Replaces W&B by a fake that sends nothing; yields the runs it was asked for."""
    runs = []
    module = types.ModuleType("wandb")

    def init(**options):
        runs.append(FakeRun(**options))
        return runs[-1]

    vars(module).update(init=init, Settings=dict)
    module.__spec__ = importlib.machinery.ModuleSpec("wandb", None, origin="here")
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.delitem(sys.modules, "icl.training._wandb", raising=False)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    yield runs
    sys.modules.pop("icl.training._wandb", None)


def test_wandb_goes_on_in_the_run_of_its_folder(fake_wandb, tmp_path, monkeypatch):
    config = {"seed": 3, "model": {"type": "T"}}
    for _ in range(2):
        logger = opened(tmp_path / "a", "wandb:mine", config, name="first")
        logger.log(8, {"train/loss": 1.0})
        logger.close()
    monkeypatch.setenv("WANDB_PROJECT", "theirs")
    opened(tmp_path / "b", "wandb").log(0, {})
    monkeypatch.delenv("WANDB_PROJECT")
    opened(tmp_path / "c", "wandb").log(0, {})
    begun, resumed, *others = (run.options for run in fake_wandb)
    assert begun == resumed
    assert begun["name"] == "first"
    assert begun["config"] == config
    assert begun["dir"] == str(tmp_path / "a")
    assert begun["resume"] == "allow"
    assert begun["reinit"] == "create_new"
    assert re.fullmatch("[0-9a-f]{16}", begun["id"])
    assert len({begun["id"], *(options["id"] for options in others)}) == 3
    projects = [options["project"] for options in (begun, *others)]
    assert projects == ["mine", "theirs", "icl-opto"]
    assert fake_wandb[0].rows == [{"sequences": 8, "train/loss": 1.0}]
    assert fake_wandb[0].metrics == [("sequences", None), ("*", "sequences")]
    assert fake_wandb[0].exits == [0]


def test_wandb_is_told_how_a_training_ended(fake_wandb, tmp_path):
    good, bad = (opened(tmp_path / f"{k}/0/wandb", "wandb") for k in range(2))
    small(tmp_path / "0", [good])
    with pytest.raises(FloatingPointError):
        small(tmp_path / "1", [bad], optimizer=Adam(Constant(1e38)))
    assert [run.exits for run in fake_wandb] == [[0], [1]]


def test_the_real_wandb_takes_what_a_run_sends(tmp_path, monkeypatch):
    """Offline, it writes only to disk."""
    pytest.importorskip("wandb.sdk")
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    for kind in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"WANDB_{kind}_DIR", str(tmp_path / kind))
    two = [opened(tmp_path / f"{k}/wandb", "wandb:p", {"seed": k}) for k in (0, 1)]
    small(tmp_path, two, count=2)
    importlib.import_module("wandb").teardown()  # It writes in its own process.
    for k in (0, 1):
        [file] = (tmp_path / f"{k}/wandb").rglob("*.wandb")
        name = (tmp_path / f"{k}/wandb/wandb-id").read_text()
        assert file.name == f"run-{name}.wandb"
        assert b"train/loss" in file.read_bytes()
