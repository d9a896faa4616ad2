"""The output of `python -m sweeps status`, and a launch's table before it starts."""

import dataclasses
import os
import platform
import re
import subprocess
import sys
import time

import jax
import pytest

from icl import Start
from icl.data import LowRankClasses
from icl.presets.induction import induction
from icl.training import Training
from sweeps.execute import Launch, plan_table
from sweeps.execute._alive import process
from sweeps.folder import Folder, Job, last_lines, Report
from sweeps.plan import JobEstimate
from sweeps.text import duration, memory, table
from sweeps.watch import _look, _status, status
from sweeps.watch._look import KILLED, look


TOTAL = 64


def experiment(**changes):
    base = induction(LowRankClasses(num_classes=60, num_exemplars=1, dim=6))
    changes = {"training": Training(60, 16), "evaluations": {}, **changes}
    return dataclasses.replace(base, **changes)


@pytest.fixture(scope="module")
def some():
    return experiment()


class Study:
    """A study folder whose jobs tests invent."""

    def __init__(self, path, some):
        self.folder, self.some = Folder(path), some
        self.seconds = time.time() - 1000.0
        with self.folder.claimed("ours", "smoke"):
            self.folder.begin("ours", "smoke", {}, (), (), ())

    def job(self, name, runs, needs=(), cluster="local", job_id="999999999"):
        experiments = dict.fromkeys(runs, self.some)
        began = process(int(job_id)) if job_id and cluster == "local" else ""
        job = Job(name, tuple(runs), tuple(needs), 1, cluster, job_id, began)
        self.folder.begin("ours", "smoke", experiments, runs, (), [job])
        self._touch(self.folder.sweep / "jobs" / f"{name}.json")
        return job

    def report(self, run, state, **fields):
        self.folder.write_report(run, Report(state, **fields))
        self._touch(self.folder.sweep / "runs" / f"{run}.json")

    def at(self, run, sequences):
        file = self.folder.run(run) / "resume" / f"{sequences:012d}.eqx"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        (file.parents[1] / "config.json").touch()

    def log(self, job, text, kind="log.err"):
        file = self.folder.logs / f"{job.job_id}_0_{kind}"
        file.write_text(text)
        self._touch(file)

    def launching(self, pid):
        text = f"process {pid} on {platform.node()}"
        (self.folder.sweep / ".lock").write_text(text)

    def states(self):
        return {run: each.state for run, each in look(self.folder)[0].items()}

    def status(self, *options):
        return status([str(self.folder.path), *options])

    def _touch(self, file):
        """Dates each file one second after the one before."""
        self.seconds += 1.0
        os.utime(file, (self.seconds, self.seconds))


@pytest.fixture
def study(tmp_path, some):
    return Study(tmp_path / "study", some)


@pytest.fixture
def alive():
    """The id of a process that looks like a job."""
    code = "import time; time.sleep(100)"
    process = subprocess.Popen([sys.executable, "-c", code, "submitit", "sweeps"])
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture
def squeue(tmp_path, monkeypatch):
    """Makes `squeue` answer with lines, or fail."""

    def answer(*lines, code=0):
        script = tmp_path / "bin/squeue"
        script.parent.mkdir(exist_ok=True)
        text = "\n".join(lines)
        to = "&2" if code else "&1"
        script.write_text(f"#!/bin/sh\ncat <<'END' >{to}\n{text}\nEND\nexit {code}\n")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")

    return answer


# States


def test_a_run_whose_job_is_there_runs(study, alive):
    study.job("000", ["a", "b"], job_id=str(alive))
    study.at("a", 16)
    study.report("a", "running", sequences=32, rate=8.0, loss=0.25)
    seen, note = look(study.folder)
    assert (seen["a"].state, seen["b"].state, note) == ("running", "running", "")
    assert (seen["a"].sequences, seen["a"].total, seen["a"].left) == (32, TOTAL, 4.0)
    assert (seen["b"].sequences, seen["b"].rate, seen["b"].left) == (0, 0.0, None)


def test_a_run_whose_process_was_killed_is_stopped(study):
    study.job("000", ["a", "b"])
    study.at("a", 16)
    study.report("a", "running", sequences=32, rate=8.0, loss=0.25)
    study.at("b", 0)
    seen, _ = look(study.folder)
    assert [each.state for each in seen.values()] == ["stopped", "stopped"]
    # It resumes from there.
    assert (seen["a"].sequences, seen["a"].rate, seen["a"].error) == (16, 0.0, KILLED)
    assert study.status() == 0


def test_a_run_that_finishes_during_a_look_is_finished(study, monkeypatch):
    study.job("000", ["a"], cluster="slurm", job_id="7")
    study.at("a", 16)
    monkeypatch.setattr(_look, "queue", lambda jobs: study.at("a", TOTAL) or {})
    assert study.states() == {"a": "finished"}


def test_a_run_that_stopped_when_asked_to_has_no_error(study):
    study.job("000", ["a"])
    study.at("a", 16)
    study.report("a", "stopped", sequences=16)
    (seen,) = look(study.folder)[0].values()
    assert (seen.state, seen.error) == ("stopped", "")


def test_what_was_said_before_a_new_launch_is_history(study, alive):
    study.report("a", "failed", error="the disk is full")
    study.job("000", ["a", "b"], job_id=str(alive))
    assert study.states() == {"a": "running", "b": "running"}
    # Its neighbour still trains.
    study.report("b", "failed", error="diverged")
    assert study.states() == {"a": "running", "b": "failed"}
    assert study.status() == 1


def test_a_run_that_diverged_has_failed_though_it_is_at_its_end(study, capsys):
    study.job("000", ["a", "b"])
    for run in "ab":
        study.at(run, TOTAL)
    study.report("a", "failed", error="diverged: the loss is nan at step 3", loss=9.5)
    study.report("b", "finished")
    assert study.status() == 1
    rows = capsys.readouterr().out.splitlines()
    row = f"a    failed    ████████ 100%      –  9.5000     –  {999999999}  diverged"
    assert rows[2].startswith(row)
    assert rows[3] == f"b    finished  ████████ 100%      –       –     –  {999999999}"
    assert rows[-1] == "2 runs: 1 finished, 1 failed; 100% of 128 sequences"


def test_a_job_that_died_before_its_runs_began(study):
    job = study.job("000", ["a"])
    study.log(job, "Traceback\nImportError: no module named jax\n\n")
    assert study.states() == {"a": "stopped"}
    study.log(job, "", "result.pkl")
    (seen,) = look(study.folder)[0].values()
    assert (seen.state, seen.error) == ("failed", "ImportError: no module named jax")


def test_a_run_that_needs_what_failed_is_blocked(study):
    study.job("000", ["a", "b"])
    study.report("a", "failed", error="no")
    study.job("001", ["c"], needs=["000"], job_id="")
    study.job("002", ["d"], needs=["001"], job_id="")
    # The other members of its job may still finish.
    assert study.states() == {"a": "failed", "b": "new", "c": "new", "d": "new"}
    study.report("b", "failed", error="no")
    seen, _ = look(study.folder)
    assert [each.state for each in seen.values()] == [*["failed"] * 2, *["blocked"] * 2]
    assert seen["d"].error == "it needs job 001, which has failed"


def test_what_a_launch_at_work_has_yet_to_start(study, alive):
    study.job("000", ["a"], job_id=str(alive))
    study.job("001", ["b"], needs=["000"], job_id="")
    study.job("002", ["c"], job_id="")
    study.report("d", "failed", error="before")
    study.job("003", ["d"])
    assert study.states() == {"a": "running", "b": "new", "c": "new", "d": "failed"}
    study.launching(alive)
    first = {"a": "running", "b": "waiting", "c": "queued", "d": "queued"}
    assert study.states() == first
    study.report("d", "failed", error="now")
    assert study.states() == first | {"d": "failed"}
    study.report("d", "running")  # It began in this launch, and its process is gone.
    assert study.states() == first | {"d": "stopped"}
    study.launching(999999999)
    assert study.states()["c"] == "new"


def test_a_launch_goes_past_what_needs_a_job_that_was_killed(study, alive):
    study.launching(alive)
    study.job("000", ["a"])
    study.report("a", "running", sequences=16)
    study.job("001", ["b"], needs=["000"], job_id="")
    study.job("002", ["c"], needs=["001"], job_id="")
    study.at("c", 16)
    assert study.states() == {"a": "stopped", "b": "new", "c": "stopped"}


def test_slurm_says_where_jobs_are(study, squeue):
    for number, run in enumerate("abcdef"):
        study.job(f"{number:03d}", [run], cluster="slurm", job_id=f"7_{number}")
    study.report("f", "running", sequences=16)
    squeue(
        "7_0|RUNNING|None",
        "7_1|PENDING|Priority",
        "7_2|PENDING|Dependency",
        "7_3|PENDING|DependencyNeverSatisfied",
        "8_0|RUNNING|None",
    )
    seen, note = look(study.folder)
    states = [each.state for each in seen.values()]
    assert states == ["running", "queued", "waiting", "blocked", "new", "stopped"]
    assert note == ""
    study.report("b", "stopped", sequences=16)  # It was also requeued.
    assert study.states()["b"] == "queued"


def test_what_slurm_said_when_it_killed(study, squeue):
    squeue()
    job = study.job("000", ["a"], cluster="slurm", job_id="7")
    study.report("a", "running", sequences=16)
    killer = "slurmstepd: error: *** JOB 7 ON n CANCELLED DUE TO TIME LIMIT ***"
    study.log(job, f"a warning\n{killer}\n")
    assert look(study.folder)[0]["a"].error == f"{KILLED}: {killer}"


def test_slurm_does_not_answer(study, squeue, capsys):
    squeue("slurm_load_jobs error: Unable to contact slurm controller", code=1)
    study.job("000", ["a"], cluster="slurm", job_id="7")
    study.job("001", ["b"], needs=["000"], cluster="slurm", job_id="8")
    study.report("a", "running", sequences=16, rate=4.0)
    assert study.states() == {"a": "running", "b": "waiting"}
    assert study.status() == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("Slurm does not answer: slurm_load_jobs error: Unable")
    study.at("a", TOTAL)
    study.at("b", TOTAL)
    look(study.folder)
    assert look(study.folder)[1] == ""  # There is no job to ask about.


# The text


def test_the_summary_has_the_time_that_is_left(study, alive, capsys):
    study.job("000", ["a", "b"], job_id=str(alive))
    study.report("a", "running", sequences=32, rate=2.0, loss=0.5)
    study.report("b", "running", sequences=48, rate=1.0)
    study.job("001", ["c"], job_id="")
    study.launching(alive)
    assert study.status() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        *("run", "state", "progress", "seq/s", "loss", "left", "job", "error")
    ]
    assert (
        re.sub(" +", " ", lines[2]) == f"a running ████░░░░ 50% 2 0.5000 16 s {alive}"
    )
    # 32 + 16 + 64 sequences at 3 a second.
    assert lines[-1] == (
        "3 runs: 0 finished, 1 queued, 2 running; 41% of 192 sequences; about 37 s left"
    )


def test_failed_shows_the_ends_of_logs(study, alive, squeue, capsys):
    squeue()
    job = study.job("000", ["a", "b"], cluster="slurm", job_id="7_1")
    study.report("a", "failed", error="no memory")
    study.report("b", "running", sequences=16)
    study.log(job, "".join(f"line {k}\n" for k in range(30)))
    study.job("001", ["c"], needs=["000"], job_id="")
    study.job("002", ["d"], job_id=str(alive))
    study.job("003", ["e"])
    study.report("e", "stopped", sequences=16)
    assert study.status("--failed") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a: failed: no memory"
    assert lines[1] == f"b: stopped: {KILLED}"
    assert lines[2].endswith("_sweep/logs/7_1_0_log.err:")
    assert lines[3:] == [f"  line {k}" for k in range(10, 30)]


def test_the_end_of_a_long_log(tmp_path):
    file = tmp_path / "log"
    file.write_text("x" * 2**17 + "\nlast\n\n")
    assert last_lines(file, 1) == ["last"]
    assert last_lines(tmp_path / "none", 3) == []


# Watching


def at_each_look(monkeypatch, *steps):
    """Runs one of the steps at each sleep of `--watch`."""
    left = list(steps)
    monkeypatch.setattr(_status.time, "sleep", lambda seconds: left.pop(0)())
    return left


def test_watching_ends_with_the_last_job(study, alive, monkeypatch, capsys):
    study.job("000", ["a", "b"], job_id=str(alive))

    def one():
        study.report("a", "running", sequences=48)

    def two():
        study.at("a", TOTAL)
        study.report("a", "finished")

    def three():
        study.report("b", "failed", error="diverged")

    left = at_each_look(monkeypatch, one, two, three)
    assert study.status("--watch") == 1
    assert left == []
    lines = capsys.readouterr().out.splitlines()
    told = [line.split()[:2] for line in lines if line[:2] in ("a ", "b ")]
    # It prints no line if only a number has changed.
    pairs = [["a", "running"], ["b", "running"], ["a", "finished"], ["b", "failed"]]
    assert told == pairs


def test_watching_in_a_terminal_draws_over(study, alive, monkeypatch, capsys):
    study.job("000", [f"r{k}" for k in range(40)], job_id=str(alive))
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "20")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    study.report("r30", "failed", error="no " * 50)
    for run in range(40):
        if run != 30:
            study.at(f"r{run}", 16)

    def end():
        for run in range(40):
            study.at(f"r{run}", TOTAL)

    at_each_look(monkeypatch, end)
    study.status("--watch")
    frames = capsys.readouterr().out.split("\x1b[H")[1:]
    assert len(frames) == 2
    for frame in frames:
        assert frame.endswith("\x1b[J")
        lines = frame.removesuffix("\x1b[J").split("\x1b[K\n")
        assert len(lines) <= 20
        assert all(len(line) < 60 for line in lines)
    assert "r30  failed" in frames[1]
    assert "… and 27 other runs" in frames[0]


def test_no_device_is_asked_for(study):
    study.job("000", ["a"])
    code = "import sys; from sweeps.watch import status; sys.exit(status(sys.argv[1:]))"
    command = [sys.executable, "-c", code, str(study.folder.path)]
    # JAX would fail if it started a device.
    nowhere = os.environ | {"JAX_PLATFORMS": "nowhere"}
    done = subprocess.run(command, capture_output=True, text=True, env=nowhere)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 run: 0 finished, 1 new; 0% of 64 sequences" in done.stdout


# The plan of a launch


def test_the_table_of_a_launch(tmp_path, some):
    folder = Folder(tmp_path / "study")
    names = ("first", "second", "half", "queued", "plain")
    experiments = dict.fromkeys(names, some)
    experiments["second"] = dataclasses.replace(some, start=Start("first", 64))
    point = folder.run("half") / "resume/000000000032.eqx"
    point.parent.mkdir(parents=True)
    point.touch()
    needed = dict.fromkeys(names, ()) | {"second": ("first",), "half": names[:1]}
    launch = Launch(
        folder,
        experiments,
        needed,
        chosen=names,
        finished=("first",),
        queued=(Job("000", ("queued",), (), 1, "slurm", "7"),),
        jobs=(Job("001", ("second", "half"), (), 2), Job("002", ("plain",), (), 1)),
        dropped=(),
        costs={"001": JobEstimate(3700.0, 3 * 2**30)},
    )
    lines = plan_table(launch).splitlines()
    rows = [re.split("  +", line) for line in lines[2:7]]
    assert rows == [
        ["first", "–", "64", "–", "finished"],
        ["queued", "000", "1", "64", "–", "–", "–", "queued"],
        ["second", "001", "2", "64", "first", "1 h 02 min", "3.0 GiB", "new"],
        ["half", "001", "64", "first", "to resume from 32 sequences"],
        ["plain", "002", "1", "64", "–", "–", "–", "new"],
    ]
    kind = jax.devices()[0].device_kind
    assert lines[8:] == [
        "5 runs: 3 to train, 1 queued or running already, 1 finished; 2 jobs to start.",
        "160 of 192 sequences to train on.",
        "About 1 h 02 min, one job after the other, and 1 job not measured: an "
        f"estimate from a step measured on this machine's device, {kind}.",
    ]


def test_columns_are_as_wide_as_they_must_be():
    text = table([("a", "1"), ("bcd", "22")], ("name", "n"), "lr")
    assert text == "name   n\n────  ──\na      1\nbcd   22"
    assert table([], ("name", "n"), "lr") == "name  n\n────  ─"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3599.0, "1 h 00 min"),
        (11_100.0, "3 h 05 min"),
        (187_200.0, "2 d 4 h"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_memory():
    assert [memory(340 * 2**20), memory(3 * 2**29)] == ["340 MiB", "1.5 GiB"]
