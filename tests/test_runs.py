import contextlib
import dataclasses
import errno
import functools
import itertools
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import equinox as eqx
import h5py
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from jaxtyping import Array, Float
from older import unsealed, without_checksum
from regression import examples, linear, main, member, regression

import icl
import icl.compile
import icl.experiments
import icl.runs._provenance
import icl.training._fit
import icl.training._members
from icl import measures, TaskSet
from icl.data import HDF5Classes, LowRankClasses, save_source
from icl.models import TransformerConfig
from icl.presets.gradient_descent import lsa
from icl.presets.induction import induction
from icl.protocols import TaskConfig
from icl.runs import Log, open_run, Run
from icl.tasks.exemplar_label import EvaluationSet
from icl.tasks.regression import LinearRegression
from icl.training import fit, Training
from icl.training.optimizers import Adam, Constant
from icl.training.schedules import Every, Exactly


def arrays_of(file):
    """All arrays of an HDF5 file by name, as dtype, shape and bytes."""
    found = {}

    def visit(name, x):
        if isinstance(x, h5py.Dataset):
            found[name] = (x.dtype, x.shape, x[()].tobytes())

    with h5py.File(file) as opened:
        opened.visititems(visit)
    return found


def contents(folder):
    """Everything in a finished run that must not depend on interruptions."""
    files = sorted(Path(folder).glob("checkpoints/*"))
    state = sorted(Path(folder).glob("resume/*"))[-1]
    assert not [*Path(folder).rglob("*.tmp")]
    return {
        "config": json.loads((folder / "config.json").read_text()),
        "log": arrays_of(folder / "log.h5"),
        "checkpoints": {file.name: file.read_bytes() for file in files},
        "state": (state.name, state.read_bytes()),
    }


# What a kill leaves


def progress(folder):
    return sorted(file.name for file in folder.glob("resume/*.eqx"))


def wait_for_progress(folder, alive):
    before = progress(folder)
    while progress(folder) == before and alive():
        time.sleep(0.002)


def stop_politely(folder, signals):
    """Runs the script in a process, stops it by signals, then lets it finish."""
    command, stops = [sys.executable, main.__code__.co_filename, str(folder)], []
    for number in signals:
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        wait_for_progress(folder, lambda process=process: process.poll() is None)
        process.send_signal(number)
        _, errors = process.communicate(timeout=100)
        stops.append((process.returncode, errors, progress(folder)[-1]))
    subprocess.run(command, check=True, timeout=100)
    return stops


# An exit code can be read only once, and `Process.start` reads those of all other
# processes. If two threads ask at the same time, the second gets 255.
asking = threading.Lock()


def start(process):
    with asking:
        process.start()


def is_alive(process):
    with asking:
        return process.is_alive()


def exit_code(process):
    while is_alive(process):
        time.sleep(0.002)
    return process.exitcode


def kill(make, folders, times, rng):
    """Kills this many processes at random times, then lets one finish.

    Three in four die soon after they begin to write, and they write all the time. The
    others die at any time, also while they make the folder or compile.
    """
    left = []
    for _ in range(times):
        process = make(folders)
        start(process)
        if rng.random() < 0.75:
            wait_for_progress(folders[0], functools.partial(is_alive, process))
            time.sleep(rng.uniform(0, 0.15))
        else:
            time.sleep(rng.uniform(0, 1))
        process.kill()
        left.append((exit_code(process), progress(folders[0])))
    process = make(folders)
    start(process)
    assert exit_code(process) == 0
    return left


def test_kills_at_random_times_leave_runs_that_resume_to_the_same_bits(
    tmp_path, monkeypatch
):
    # Processes are forked from one that has imported everything, and share compiled
    # programs.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["regression"])
    make = lambda folders: context.Process(
        target=main, args=(folders, tmp_path / "cache")
    )
    at = lambda place, *names: [tmp_path / place / name for name in names]
    one, two = at("killed", "one"), at("killed", "two_a", "two_b")
    with ThreadPoolExecutor() as pool:
        polite = [signal.SIGINT, signal.SIGTERM]
        stopped = pool.submit(stop_politely, tmp_path / "stopped", polite)
        for names in (["one"], ["two_a", "two_b"]):
            kill(make, at("calm", *names), 0, None)
        generators = np.random.default_rng(0).spawn(2)
        jobs = [
            pool.submit(kill, make, folders, 10, rng)
            for folders, rng in zip((one, two), generators, strict=True)
        ]
        left = [row for job in jobs for row in job.result()]
        stops = stopped.result()
    assert [code for code, _ in left] == [-signal.SIGKILL] * 20
    # The kills did come while there was something to lose, at many different points.
    assert len({str(points) for _, points in left if points}) > 8
    for folder in one + two:
        assert contents(folder) == contents(tmp_path / "calm" / folder.name)
    wanted = contents(tmp_path / "calm" / "one")
    assert contents(tmp_path / "stopped") == wanted
    for code, errors, last in stops:
        assert code not in (0, -signal.SIGKILL)
        seen = int(re.search(r"Stopped: stopped at (\d+)", errors)[1])
        assert last == f"{seen:012d}.eqx"
    assert len(wanted["checkpoints"]) == 81
    assert wanted["log"]["eval/held/loss"][1] == (121, 20)


class Killed(BaseException):
    """Not an `Exception`, so that no handler catches it."""


class Disk:
    """Wraps the calls that change a folder and lets one of them fail.

    After a kill all later calls fail too, so that nothing is cleaned up.
    """

    def __init__(self, patched, names, error, *, fail_at=0, after=False):
        self.count, self.dead = 0, False
        for owner, name in names:
            patched.setattr(owner, name, self._wrapped(getattr(owner, name)))
        self.error, self.fail_at, self.after = error, fail_at, after

    def _wrapped(self, fn):
        def wrapped(*args, **kwargs):
            if self.dead:
                raise self.error
            self.count += 1
            if self.count != self.fail_at:
                return fn(*args, **kwargs)
            self.dead = isinstance(self.error, Killed)
            if self.after:
                fn(*args, **kwargs)
            raise self.error

        return wrapped


CHANGES = ((os, "replace"), (Path, "unlink"), (Path, "mkdir"))
SMALL = Training(32, 8, evaluate_at=Every(16), checkpoint_at=Every(32))


@pytest.fixture
def train(monkeypatch):
    """Trains members into folders, fast: compiles once and never syncs."""
    programs, calls = [], itertools.count()

    def compiled_once(fn):
        # A fit compiles its steps, then its evaluation; both are the same in each fit.
        call = next(calls)
        if call < 2:
            programs.append(icl.compile.jit(fn))
        return programs[call % 2]

    monkeypatch.setattr(icl.training._members, "jit", compiled_once)
    monkeypatch.setattr(icl.runs._provenance, "code_version", lambda: None)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    held = {"held": examples(regression(), 5)}

    def train(*folders, training=SMALL):
        members = [
            member(train_seed=seed, evaluations=held) for seed in range(len(folders))
        ]
        with contextlib.ExitStack() as stack:
            opened = [open_run(folder, {"a": 1}, resume=True) for folder in folders]
            runs = [stack.enter_context(run) for run in opened]
            return fit(members, training, runs=runs, resume_interval=0.0)

    return train


def killed(train, folders, monkeypatch, fail_at, after):
    with monkeypatch.context() as patched:
        disk = Disk(patched, CHANGES, Killed(), fail_at=fail_at, after=after)
        with contextlib.suppress(Killed):
            train(*folders)
    return disk


@pytest.mark.parametrize("names", [["a"], ["a", "b"]], ids=["one", "two"])
def test_a_kill_at_any_write_is_resumed_to_the_same_bits(
    names, train, tmp_path, monkeypatch
):
    at = lambda place: [tmp_path / place / name for name in names]
    whole = killed(train, at("calm"), monkeypatch, 0, False)
    wanted = [contents(folder) for folder in at("calm")]
    assert whole.count > 15 * len(names)
    for fail_at, after in itertools.product(range(1, whole.count + 1), (False, True)):
        folders = at(f"{fail_at}{after}")
        assert killed(train, folders, monkeypatch, fail_at, after).dead
        points = [set(progress(folder)) for folder in folders]
        if all(points):  # All still have the slowest member's last point.
            assert min(map(max, points)) in set.intersection(*points)
        train(*folders)
        assert [contents(folder) for folder in folders] == wanted
        assert {len(progress(folder)) for folder in folders} == {2}
    # Again while resuming, which first removes what lies beyond.
    killed(train, at("crashed"), monkeypatch, whole.count * 2 // 3, True)
    for fail_at in itertools.count(1):
        again = tmp_path / f"again{fail_at}"
        shutil.copytree(tmp_path / "crashed", again)
        folders = [again / name for name in names]
        disk = killed(train, folders, monkeypatch, fail_at, True)
        train(*folders)
        assert [contents(folder) for folder in folders] == wanted
        if not disk.dead:
            break
    assert fail_at > 5 * len(names)


def test_what_one_member_did_alone_is_dropped(train, tmp_path, monkeypatch):
    folders = [tmp_path / "a", tmp_path / "b"]
    train(*folders)
    assert progress(folders[1]) == ["000000000016.eqx", "000000000032.eqx"]
    (folders[1] / "resume" / "000000000032.eqx").unlink()

    def stop(self, *args):
        raise Killed

    monkeypatch.setattr(icl.training._fit._Fit, "_advance", stop)
    with pytest.raises(Killed):
        train(*folders)
    for folder in folders:
        assert progress(folder) == ["000000000016.eqx"]
        assert Run(folder).checkpoints == [0]


def test_runs_that_were_trained_apart_are_not_dropped(train, tmp_path):
    train(tmp_path / "a")
    before = contents(tmp_path / "a")
    with pytest.raises(ValueError, match="no resume point in common: .*b at none"):
        train(tmp_path / "a", tmp_path / "b")
    assert contents(tmp_path / "a") == before


def test_a_full_disk_is_an_error_and_loses_nothing(train, tmp_path, monkeypatch):
    train(tmp_path / "calm")
    wanted = contents(tmp_path / "calm")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for fail_at in itertools.count(1):
        folder = tmp_path / str(fail_at)
        with monkeypatch.context() as patched:
            disk = Disk(patched, ((os, "fsync"),), full, fail_at=fail_at)
            try:
                train(folder)
            except ValueError as error:
                message = str(error)
        if disk.count < fail_at:
            break
        wrong, _, hint = message.partition("; ")
        assert wrong == f"cannot write to {folder}: No space left on device"
        began = (folder / "config.json").exists()
        intact = "everything saved before is intact, and the run resumes from there"
        assert hint == (intact if began else "")
        train(folder)
        assert contents(folder) == wanted
    assert fail_at > 20


# The folder


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("original") / "run"
    trained = member(evaluations={"held": examples(regression(), 5)})
    plan = Training(16, 8, evaluate_at=Every(8), checkpoint_at=Every(8))
    with open_run(folder, {"rate": 0.1}) as run:
        # Only the first and the last resume point, however slow the machine is.
        (result,) = fit(trained, plan, runs=run, resume_interval=1e9)
    return folder, result


@pytest.fixture
def plain_run(original, tmp_path):
    """A run with three checkpoints, for damage, and its result."""
    folder, result = original
    return Path(shutil.copytree(folder, tmp_path / "run")), result


def test_what_a_run_folder_holds(plain_run):
    folder, result = plain_run
    files = [file.relative_to(folder) for file in folder.rglob("*") if file.is_file()]
    assert sorted(map(str, files)) == [
        ".lock",
        "checkpoints/000000000000.eqx",
        "checkpoints/000000000008.eqx",
        "checkpoints/000000000016.eqx",
        "checksums.sha256",
        "config.json",
        "log.h5",
        "meta.json",
        "resume/000000000000.eqx",
        "resume/000000000016.eqx",
    ]
    run = Run(folder)
    assert run.config == {"rate": 0.1}
    assert run.checkpoints == [0, 8, 16]
    for metric, rows in result.log.train.items():
        assert run.log.train[metric].tobytes() == np.asarray(rows).tobytes()
    held = run.log.evaluations["held"]["loss"]
    assert held.tobytes() == result.log.evaluations["held"]["loss"].tobytes()
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["versions"]["jax"] == jax.__version__
    assert meta["versions"]["equinox"] == eqx.__version__
    assert meta["command"] == sys.argv
    assert re.fullmatch("[0-9a-f]{40}(-dirty)?", meta["commit"])


def test_checkpoints_hold_the_weights_to_the_bit(plain_run):
    folder, result = plain_run
    template = jax.tree.map(jnp.zeros_like, linear())
    for checkpoint in (-1, 16):
        model = Run(folder).load(template, checkpoint)
        same = lambda a, b: np.asarray(a).tobytes() == np.asarray(b).tobytes()
        assert jax.tree.all(jax.tree.map(same, model, result.model))
    first = Run(folder).load(template, 0)
    assert np.array_equal(first.weight, linear().weight)
    assert first.version == 7


def test_a_checkpoint_that_is_not_there(plain_run):
    run = Run(plain_run[0])
    with pytest.raises(
        ValueError, match=r"no checkpoint 13 \(it has 3 checkpoints; the nearest is 16"
    ):
        run.load(linear(), 13)
    shutil.rmtree(run.path / "checkpoints")
    assert run.checkpoints == []
    with pytest.raises(ValueError, match=r"has no checkpoints yet"):
        run.load(linear())


def test_a_checkpoint_that_does_not_fit(plain_run):
    folder, _ = plain_run
    more = eqx.nn.Linear(3, 2, key=jax.random.key(0))
    for template in (linear(4), more, (linear(), linear()), linear().weight):
        with pytest.raises(
            ValueError, match="000016.eqx is damaged or of another mod"
        ) as caught:
            Run(folder).load(template)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\x89HDF\xff", b"[1]"])
def test_a_damaged_config(content, plain_run):
    folder, _ = plain_run
    (folder / "config.json").write_bytes(content)
    for read in (
        lambda: Run(folder).config,
        lambda: icl.load(folder),
        lambda: open_run(folder, {"rate": 0.1}, resume=True).__enter__(),
    ):
        with pytest.raises(ValueError, match="config.json") as caught:
            read()
        assert "\n" not in str(caught.value)


def test_a_damaged_log(plain_run):
    folder, _ = plain_run
    file = folder / "log.h5"
    file.write_bytes(file.read_bytes()[:-300])
    with pytest.raises(ValueError, match="log.h5 is not a readable log") as caught:
        _ = Run(folder).log
    assert "\n" not in str(caught.value)
    for names in ((), ("train/loss",), ("train", "eval"), ("train/iter", "eval")):
        with h5py.File(file, "w") as opened:
            for name in names:
                opened[name] = np.zeros(3)
        with pytest.raises(ValueError, match="log.h5 is not a readable log"):
            _ = Run(folder).log


def test_a_log_cut_back(tmp_path):
    log = Log()
    log.add_steps({"loss": np.arange(3.0)})
    log.add_evaluation(0, {"held": {"loss": np.zeros(2)}})
    log.add_evaluation(24, {"held": {"loss": np.ones(2)}})
    log.add_steps({"loss": np.arange(3.0, 5.0)})
    log.write(tmp_path / "log.h5", 8)
    for full in (log, Log.read(tmp_path / "log.h5")):
        cut = full.truncated(2, 16)
        assert cut.train["loss"].tolist() == [0, 1]
        assert cut.events.tolist() == [0]
        assert cut.evaluations["held"]["loss"].tolist() == [[0, 0]]
        assert full.train["loss"].tolist() == [0, 1, 2, 3, 4]
        assert full.truncated(3, 24).events.tolist() == [0, 24]
        assert full.truncated(0, -1).evaluations == {}


def test_what_lies_beyond_a_resume_point_is_dropped(plain_run):
    folder, _ = plain_run
    with open_run(folder, {"rate": 0.1}, resume=True) as run:
        run.drop_after(16)
        assert (run.checkpoints, run.resume_points) == ([0, 8, 16], [0, 16])
        run.drop_after(8)
        assert (run.checkpoints, run.resume_points) == ([0, 8], [0])


def test_another_config_is_refused_with_what_differs(plain_run):
    folder = unsealed(plain_run[0])
    Path(folder / "config.json").write_text(
        json.dumps({"rate": 0.1, "task": {"size": 3, "old": 1}, "edits": ["a", "b"]})
    )
    task = {"size": 4, "new": 2}
    other = {"rate": 0.2, "task": task, "edits": ("a", "b")}
    with pytest.raises(ValueError, match="holds a run of another config") as caught:
        open_run(folder, other, resume=True).__enter__()
    message = str(caught.value)
    for part in ("rate: 0.1 there, 0.2 here", "task.size: 3 ", "task.old", "task.new"):
        assert part in message
    assert "edits" not in message
    with pytest.raises(ValueError, match="already holds a run"):
        open_run(folder, {"rate": 0.1}).__enter__()


def test_a_folder_of_other_things_is_left_as_it_was(tmp_path):
    for name in ("thesis.tex", "data.tmp", "meta.json", ".hidden"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text("mine")
        for resume in (False, True):
            with pytest.raises(ValueError, match=f"not a run .it holds {name}"):
                open_run(folder, {}, resume=resume).__enter__()
        assert [file.name for file in folder.iterdir()] == [name]
    (tmp_path / "checkpoints" / "checkpoints").mkdir(parents=True)
    with pytest.raises(ValueError, match="not a run .it holds checkpoints"):
        open_run(tmp_path / "checkpoints", {}).__enter__()
    with pytest.raises(ValueError, match="is a file; a run needs a folder"):
        open_run(tmp_path / "data.tmp" / "data.tmp", {}).__enter__()


def test_leftovers_of_a_kill_are_removed_and_nothing_else(plain_run):
    folder, _ = plain_run
    left = [".log.h5.123.tmp", "checkpoints/.000000000016.eqx.9.tmp", "resume/.x.1.tmp"]
    mine = ["notes.tmp", "figures/.loss.png.7.tmp"]
    (folder / "figures").mkdir()
    for name in (*left, *mine):
        (folder / name).write_text("half")
    with open_run(folder, {"rate": 0.1}, resume=True):
        assert [name for name in left if (folder / name).exists()] == []
        assert [name for name in mine if (folder / name).exists()] == mine


def test_the_lock_of_a_killed_process_is_gone(tmp_path):
    script = (
        "import sys; from icl.runs import open_run\n"
        "with open_run(sys.argv[1], {}): print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "held\n"
        for resume in (False, True):
            wanted = f"is being written by process {process.pid} on "
            with pytest.raises(ValueError, match=wanted) as caught:
                open_run(tmp_path / "run", {}, resume=resume).__enter__()
            assert "\n" not in str(caught.value)
        process.kill()
        process.wait()
        for _ in range(2):
            with open_run(tmp_path / "run", {}, resume=True):
                with pytest.raises(
                    ValueError, match=f"written by process {os.getpid()}"
                ):
                    open_run(tmp_path / "run", {}, resume=True).__enter__()


def test_what_cannot_go_on_is_refused_and_left_alone(train, tmp_path):
    train(tmp_path / "run")
    kept = contents(tmp_path / "run")["checkpoints"]
    os.remove(tmp_path / "run/log.h5")
    with pytest.raises(ValueError, match="log.h5 ends at step 0, before the resume"):
        train(tmp_path / "run")
    shutil.rmtree(tmp_path / "run/resume")
    with pytest.raises(ValueError, match="has checkpoints but no resume point"):
        train(tmp_path / "run")
    files = sorted((tmp_path / "run/checkpoints").glob("*"))
    assert {file.name: file.read_bytes() for file in files} == kept


# Replay


D, HEADS = 8, 2


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A small transformer, trained under an edit, with 18 checkpoints."""
    out = tmp_path_factory.mktemp("run") / "small"
    source = LowRankClasses(num_classes=60, num_exemplars=1, dim=6)
    plan = dataclasses.replace(
        induction(source),
        model=TransformerConfig(d_model=D, num_heads=HEADS),
        optimizer=Adam(Constant(0.02)),
        training=Training(17 * 8, 8, evaluate_at=Every(68), checkpoint_at=Every(8)),
        evaluations={"train": EvaluationSet(size=6)},
        edits=("Zero('blocks.0.attn.z', head=1)",),
    )
    result = icl.run_experiment(plan, out)
    return icl.load(out), result


def test_an_experiment_is_read_back_whole(trained):
    read, result = trained
    assert read.run.checkpoints == list(range(0, 17 * 8 + 1, 8))
    same = lambda a, b: np.array_equal(np.asarray(a), np.asarray(b))
    ours, theirs = (eqx.filter(m, eqx.is_array) for m in (read.model, result.model))
    assert jax.tree.all(jax.tree.map(same, ours, theirs))
    assert [repr(edit) for edit in read.edits] == ["Zero('blocks.0.attn.z', head=1)"]
    built = read.experiment.build()
    assert jax.tree.all(jax.tree.map(same, read.evaluations, built.evaluations))
    rows = icl.experiments.evaluate(
        read.model, read.task, read.evaluations["train"], edits=read.edits
    )
    logged = result.log.evaluations["train"]
    assert result.log.events.tolist() == [0, 72, 136]
    for metric, row in rows.items():
        np.testing.assert_allclose(logged[metric][-1], row, rtol=1e-4, atol=1e-6)


def test_a_saved_set_of_exemplars_that_are_not_finite_is_refused(trained, tmp_path):
    read, _ = trained
    out = unsealed(shutil.copytree(read.run.path, tmp_path / "run"))
    without_checksum(out / "eval_data.h5")
    with h5py.File(out / "eval_data.h5", "r+") as file:
        file["train/examples"][2, 1, 0] = np.nan
    match = "eval_data.h5: set 'train': examples must be finite, got 1 of 108 "
    with pytest.raises(ValueError, match=match):
        icl.load(out)


class Padded(eqx.Module):
    """A regression example plus a padded list of numbers of varying length."""

    x: Float[Array, "*batch point dim"]
    y: Float[Array, "*batch point"]
    numbers: Float[Array, "*batch number"]


@dataclasses.dataclass(frozen=True)
class PaddedWithNaN(TaskConfig):
    @property
    def interface(self):
        return LinearRegression(3, 4).interface

    def sample(self, *, key, seen=0):
        own = LinearRegression(3, 4).sample(key=key, seen=seen)
        length = jax.random.randint(key, (), 0, 6)
        numbers = jnp.where(jnp.arange(6) < length, 1.0, jnp.nan)
        return Padded(own.x, own.y, numbers)

    def inputs(self, example):
        return example.x, example.y

    def forward(self, model, example, *, tap):
        return model(*self.inputs(example), tap=tap)

    def metrics(self, prediction, example):
        error = prediction - jnp.nansum(example.numbers)
        return {"loss": error**2}


def test_a_task_may_pad_with_nan(tmp_path):
    """The stored sets are read back unchanged, to load a run and to resume it."""
    plan = dataclasses.replace(
        lsa(),
        task=PaddedWithNaN(),
        training=Training(64, 32),
        evaluations={"train": TaskSet(8)},
    )
    icl.run_experiment(plan, tmp_path / "run")
    read, built = icl.load(tmp_path / "run"), plan.build()
    assert np.isnan(read.evaluations["train"].numbers).any()
    jax.tree.map(np.testing.assert_array_equal, read.evaluations, built.evaluations)
    (tmp_path / "run/resume/000000000064.eqx").unlink()
    result = icl.run_experiment(plan, tmp_path / "run", resume=True)
    assert np.isfinite(result.log.evaluations["train"]["loss"]).all()


def test_experiments_train_together_each_in_its_folder(trained, tmp_path):
    read, alone = trained
    plans = [
        dataclasses.replace(read.experiment, train_seed=seed, edits=(edit,))
        for seed, edit in (
            (0, "Zero('blocks.0.attn.z', head=1)"),
            (3, "Zero('blocks.0.attn.z', head=0)"),
        )
    ]
    outs = [tmp_path / "0", tmp_path / "3"]
    results = icl.run_experiments(plans, outs)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
    close(results[0].log.train["loss"], alone.log.train["loss"])
    for plan, out, result in zip(plans, outs, results, strict=True):
        again = icl.load(out)
        assert again.experiment == plan
        rows = icl.experiments.evaluate(
            again.model, again.task, again.evaluations["train"], edits=again.edits
        )
        logged = result.log.evaluations["train"]["loss"][-1]
        np.testing.assert_allclose(logged, rows["loss"], rtol=1e-4, atol=1e-6)
    longer = dataclasses.replace(plans[1], training=Training(64))
    with pytest.raises(ValueError, match="share training="):
        icl.run_experiments([plans[0], longer], outs)
    with pytest.raises(ValueError, match="2 experiments and 1 folders"):
        icl.run_experiments(plans, outs[:1])
    with pytest.raises(ValueError, match="its own folder, got one folder twice"):
        icl.run_experiments(plans, [tmp_path / "a", tmp_path / "a/../a"])
    other = TransformerConfig(d_model=D, num_heads=4)
    with pytest.raises(ValueError, match="member 1 has"):
        icl.run_experiments(
            [plans[0], dataclasses.replace(plans[1], model=other)],
            [tmp_path / "a", tmp_path / "b"],
        )
    assert {file.name for file in tmp_path.iterdir()} == {"0", "3"}


def test_a_lengthened_run_is_as_if_trained_at_once(trained, tmp_path):
    read, _ = trained
    plan = lambda sequences, every=16: dataclasses.replace(
        read.experiment,
        training=Training(sequences, 8, None, Every(every), Exactly((0, 16, 32))),
    )
    short, lengthened, at_once = (tmp_path / name for name in "abc")
    icl.run_experiment(plan(32), short)
    before = contents(short)
    icl.experiments.lengthen(short, plan(64), lengthened)
    assert Run(lengthened).resume_points == [32]
    for out in (lengthened, at_once):
        icl.run_experiment(plan(64), out, resume=True)
    assert contents(lengthened) == contents(at_once)
    assert contents(short) == before
    odd = tmp_path / "odd"
    icl.run_experiment(plan(32, 24), odd)
    other = dataclasses.replace(plan(64), train_seed=9)
    for begun, longer, message in (
        (short, other, "num_sequences alone; .*train_seed"),
        (short, plan(32), "must be more than 32, .* got 32"),
        (odd, plan(64, 24), "evaluate_at has a point at 32 in only one"),
        (tmp_path / "none", plan(64), "none is not a run folder"),
    ):
        with pytest.raises(ValueError, match=message):
            icl.experiments.lengthen(begun, longer, tmp_path / "d")
    assert not (tmp_path / "d").exists()
    with pytest.raises(ValueError, match="already holds a run"):
        icl.experiments.lengthen(short, plan(64), lengthened)


def test_a_run_knows_the_file_of_its_data(trained, tmp_path):
    read, _ = trained
    file, out = tmp_path / "classes.h5", tmp_path / "run"
    save_source(read.experiment.data, file)
    short = Training(16, 8, None, Every(16), Every(16))
    source = HDF5Classes(str(file))
    plan = dataclasses.replace(read.experiment, data=source, training=short)
    icl.run_experiment(plan, out)
    icl.load(out)
    with h5py.File(file, "a") as opened:
        opened["features"][0, 0, 0] = 7
    for again in (icl.load, functools.partial(icl.run_experiment, plan, resume=True)):
        with pytest.raises(ValueError, match="data's file has changed since .*run"):
            again(out)


def by_hand(read, checkpoint, batch, edited):
    """Each sequence's losses and patterns at a checkpoint, in NumPy."""
    w = oracles.weights_of(read.run.load(read.model, checkpoint))
    if edited:  # Remove head 1 of layer 0: its columns of the output matrix.
        w["blocks"][0]["output"][:, D // HEADS :] = 0
    losses, patterns = [], []
    for x, labels in zip(batch.examples, batch.labels, strict=True):
        x, labels = np.asarray(x, np.float64), np.asarray(labels)
        logits, pattern = oracles.transformer(x, labels, w, heads=[HEADS] * 2)
        losses.append(-np.log(oracles.softmax(logits[-1])[labels[-1]]))
        patterns.append(pattern)
    return np.mean(losses), patterns


def strengths(patterns, labels):
    """Attention to the right label minus attention to the others, by head."""
    total = np.zeros(len(patterns[0]))
    for pattern, row in zip(patterns, labels, strict=True):
        for head, attention in enumerate(pattern):
            for pair, label in enumerate(row[:-1]):
                sign = 1 if label == row[-1] else -1
                total[head] += sign * attention[-1, 2 * pair + 1]
    return total / len(patterns)


def previous_token(patterns):
    """The attention of each label (at 1, 3, …) to the exemplar before it."""
    rows = [[a[t, t - 1] for t in range(1, len(a), 2)] for p in patterns for a in p]
    return np.mean(rows, 1).reshape(len(patterns), -1).mean(0)


MEASURES = {
    "induction": measures.induction_strength(1),
    "previous": measures.previous_token_strength(0),
    "previous_last": measures.previous_token_strength(1),
}


@pytest.mark.parametrize("edited", [True, False])
def test_replay_is_each_checkpoint_by_hand(edited, trained):
    read, _ = trained
    batch = read.evaluations["train"]
    wanted = {**MEASURES, "loss": measures.task_metric(read.task, "loss")}
    edits = None if edited else ()
    table = icl.replay(read, wanted, edits=edits)
    assert table.sequences.tolist() == read.run.checkpoints
    assert {name: x.shape for name, x in table.values.items()} == {
        "induction": (18, HEADS),
        "previous": (18, HEADS),
        "previous_last": (18, HEADS),
        "loss": (18,),
    }
    for row, checkpoint in enumerate(read.run.checkpoints):
        loss, patterns = by_hand(read, checkpoint, batch, edited)
        first, last = ([p[layer] for p in patterns] for layer in (0, 1))
        close = lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-6)
        close(table["loss"][row], loss)
        close(table["induction"][row], strengths(last, batch.labels))
        close(table["previous"][row], previous_token(first))
        close(table["previous_last"][row], previous_token(last))
    assert np.ptp(table["loss"]) > 0.1
