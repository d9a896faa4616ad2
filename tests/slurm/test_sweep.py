"""A study on a real Slurm: whatever happens to its jobs, the runs end the same.

The study is `twelve.py`: 12 runs in 5 jobs. The first two jobs are one array. The next
two are a second array, which waits for a task of the first. The last job waits for a
task of the second. Tests that train only a part of the study keep whole jobs: a program
gives the same bits only with the same members on the same number of devices.
"""

import concurrent.futures
import gc
import math
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cluster import Cluster
from test_sweeps import assert_same, contents, STUDY, sweeps

from icl.training import Stopped
from sweeps.execute._job import _heeding
from sweeps.folder import Folder, Job


TOTAL = 96_000
# One core for each job, whatever this machine has. The undisturbed study also trains on
# Slurm; outside of it, it would use as many devices as the machine has cores.
SETTINGS = """\
partition = "main"
cpus = 1
memory_gb = 0.5
time_minutes = 20
signal_seconds = 60
"""
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"}
LONG = 300.0  # Seconds; a job takes ten, or a minute on a busy machine.


class Study:
    """A study's folder, and the commands on it."""

    def __init__(
        self,
        cluster: Cluster,
        out: Path,
        only: tuple[str, ...] = (),
        settings: str = SETTINGS,
    ):
        self.cluster, self.folder = cluster, Folder(out)
        out.parent.mkdir(exist_ok=True)
        self._file = out.parent / f"{out.name}.toml"
        self._file.write_text(settings)
        self._only = [word for name in only for word in ("--only", name)]
        # All jobs share compiled programs; compiling would take most of their time.
        self._env = {
            "JAX_COMPILATION_CACHE_DIR": str(cluster.folder / "compiled"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            **cluster.env,
        }

    def launch(self, **env: str) -> tuple[int, str, str]:
        """Submits the remaining runs; returns the command's status and outputs."""
        return sweeps(
            *(STUDY, "--out", self.folder.path, "--scale", "small", "--members", 8),
            *("--set", f"training.num_sequences={TOTAL}", *self._only),
            *("--cluster", "slurm", "--cluster-file", self._file),
            env=self._env | env,
        )

    def command(self, name: str) -> tuple[int, str, str]:
        """The same for `status` or `cancel`."""
        return sweeps(name, self.folder.path, env=self.cluster.env)

    def job(self, run: str) -> Job:
        """The job that trains a run."""
        return next(job for job in self.folder.jobs.values() if run in job.runs)

    def id(self, run: str) -> str:
        """Slurm's id of that job."""
        return self.job(run).job_id

    def states(self) -> dict[str, str]:
        """Slurm's state of each of the study's jobs."""
        states = self.cluster.jobs()
        return {job.name: states[job.job_id] for job in self.folder.jobs.values()}

    def wait(self) -> None:
        """Waits until nothing is queued or running; then no run may have failed."""
        self.cluster.wait(lambda: set(self.states().values()) <= ENDED, LONG)
        assert set(self.states().values()) == {"COMPLETED"}

    def show(self, run: str, field: str) -> str:
        """One value from `scontrol show job` for a run's job."""
        told = self.cluster.run("scontrol", "--oneliner", "show", "job", self.id(run))
        found = re.search(rf"\b{field}=(\S*)", told)
        assert found is not None, told
        return found[1]

    def files(self) -> dict[Path, bytes]:
        """All files in the run's folder, with their contents."""
        files = (file for file in self.folder.path.rglob("*") if file.is_file())
        return {file: file.read_bytes() for file in files}

    def log(self, run: str) -> str:
        """All that the run's job printed, in all its starts."""
        files = self.folder.logs.glob(f"{self.id(run)}_*log.*")
        return "".join(file.read_text() for file in files)


class Caught:
    """A job's process, stopped in the middle of training, after a resume point.

    It stays stopped as long as a test needs. So a test's action never comes too late
    (on a fast machine) or too early (on a slow one).
    """

    def __init__(self, study: Study, run: str):
        self.study, self.run = study, run
        self.pid = 0
        self._since = time.time()

    def saved(self) -> bool:
        """Whether there is a resume point after the beginning."""
        return self.study.folder.sequences(self.run) > 0

    def has_trained(self) -> bool:
        """Whether it has trained since this object was made, or since it went on."""
        files = self.study.folder.run(self.run).glob("checkpoints/*.eqx")
        new = [file for file in files if file.stat().st_mtime > self._since]
        return len(new) > 1

    def stop(self) -> None:
        """Stops its process, which must not have finished."""
        (self.pid,) = self.study.cluster.pids(self.study.id(self.run))
        os.kill(self.pid, signal.SIGSTOP)
        assert self.study.folder.sequences(self.run) < TOTAL

    def go_on(self, told: signal.Signals | None = None) -> None:
        """Undoes `stop`; with `told`, waits first until this signal is pending."""
        if told is not None:
            # A signal takes some time from the controller to the node.
            self.study.cluster.wait(lambda: told in _pending(self.pid))
        self._since = time.time()
        os.kill(self.pid, signal.SIGCONT)


def _pending(pid: int) -> set[int]:
    """The pending signals of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":\t", 1) for line in lines)
    mask = int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def catch(study: Study, *runs: str) -> list[Caught]:
    """Catches the jobs of these runs; the jobs may still be waiting."""
    caught = [Caught(study, run) for run in runs]
    _stop_each(caught)
    while left := [each for each in caught if not each.saved()]:
        time.sleep(5)  # `fit` saves at the first event this long after the last one.
        for each in left:
            each.go_on()
        _stop_each(left)
    return caught


def _stop_each(caught: list[Caught]) -> None:
    """Stops each job as soon as it has trained."""
    left, end = caught, time.monotonic() + LONG
    while left:
        assert time.monotonic() < end, [each.run for each in left]
        ready = [each for each in left if each.has_trained()]
        for each in ready:
            each.stop()
        left = [each for each in left if each not in ready]
        time.sleep(0.01)


def checkpoint_zero(study: Study, run: str) -> int:
    """When the first checkpoint was written; it changes if the run starts over."""
    file = study.folder.run(run) / "checkpoints" / f"{0:012d}.eqx"
    return file.stat().st_mtime_ns


@pytest.fixture(autouse=True)
def tidy(cluster: Cluster) -> Iterator[None]:
    """Each test leaves an empty queue and an open node."""
    yield
    cluster.resume()
    left = [job for job, state in cluster.jobs().items() if state not in ENDED]
    if left:
        cluster.run("scancel", *left)
        cluster.wait(lambda: set(cluster.jobs().values()) <= ENDED)


@pytest.fixture(scope="module")
def undisturbed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The study trained without disturbance: the oracle for the others."""
    study = Study(cluster, tmp_path_factory.mktemp("undisturbed") / "twelve")
    code, output, errors = study.launch()
    assert (code, output) == (0, "")
    assert errors.splitlines()[0] == "12 runs in 5 jobs"
    study.wait()
    return study


def check_same(study: Study, undisturbed: Study) -> None:
    """Checks that each run trained once and has the bits of the undisturbed one."""
    for name in (run for job in study.folder.jobs.values() for run in job.runs):
        report = study.folder.report(name)
        assert report is not None
        assert (name, report.state) == (name, "finished")
        assert_same(undisturbed.folder.run(name), study.folder.run(name))
    texts = [file.read_text() for file in study.folder.logs.glob("*log.*")]
    # The message of a second job that trains the same run.
    assert not any("is being written by" in text for text in texts)


def test_a_study_completes(undisturbed: Study):
    folder = undisturbed.folder
    assert len(folder.experiments) == 12
    for name in folder.experiments:
        files, rows = contents(folder.run(name))
        np.testing.assert_array_equal(rows["train/iter"], np.arange(16, TOTAL + 1, 16))
        events = np.arange(0, TOTAL + 1, 3200)
        np.testing.assert_array_equal(rows["eval/iter"], events)
        assert list(files) == [f"{event:012d}.eqx" for event in events]
    assert undisturbed.command("status")[0] == 0


def test_launching_what_is_finished_starts_nothing(undisturbed: Study):
    before = undisturbed.cluster.jobs()
    code, _, errors = undisturbed.launch()
    assert code == 0
    assert errors.startswith("0 runs in 0 jobs, 12 finished before\n")
    assert undisturbed.cluster.jobs() == before


def test_disturbed_in_every_way_it_ends_with_the_same_bits(
    cluster: Cluster, undisturbed: Study, tmp_path: Path
):
    study = Study(cluster, tmp_path / "twelve")
    others = set(cluster.jobs())
    assert study.launch()[0] == 0
    mine = cluster.jobs().keys() - others
    assert mine == {job.job_id for job in study.folder.jobs.values()}

    # Tasks of one array, and of another whose tasks wait only for what they need.
    seeds, wide, start, graft, again = (
        *map(study.id, ("seed-3", "wide", "start-3", "graft", "again-1")),
    )
    assert {seeds.partition("_")[2], wide.partition("_")[2]} == {"0", "1"}
    assert seeds.partition("_")[0] == wide.partition("_")[0]
    assert start.partition("_")[0] == graft.partition("_")[0]
    assert f"afterok:{seeds}(" in study.show("start-3", "Dependency")
    assert wide not in study.show("start-3", "Dependency")
    assert f"afterok:{start}(" in study.show("again-1", "Dependency")

    # Its time is up. Slurm warns a minute ahead; it checks every 30 s.
    first = catch(study, "seed-3", "wide")
    begun = [checkpoint_zero(study, each.run) for each in first]
    _run_out(study, first[1])
    # It is preempted while no controller can answer a requeue.
    _preempt_while_away(study, first[0])

    # Nothing starts on a drained node: neither a job that others requeued, nor a job
    # that was told to end and requeued itself.
    second = catch(study, "start-3", "graft")
    begun += [checkpoint_zero(study, each.run) for each in second]
    cluster.drain()
    cluster.run("scontrol", "requeue", start)
    cluster.run("scancel", "--signal=TERM", graft)
    second[1].go_on(told=signal.SIGTERM)
    cluster.hasten(start)
    cluster.hasten(graft)
    # Meanwhile, an impatient user launches the study again.
    first_jobs = (seeds, wide)
    cluster.wait(lambda: {cluster.jobs()[job] for job in first_jobs} <= ENDED, LONG)
    before = cluster.jobs()
    code, _, errors = study.launch()
    assert code == 0
    assert errors.startswith("0 runs in 0 jobs, 5 finished before, 7 queued or running")
    assert cluster.jobs() == before
    assert {before[start], before[graft], before[again]} == {"PENDING"}
    cluster.resume()

    # SIGKILL for the process, then for the script that started it.
    (third,) = catch(study, "again-1")
    begun.append(checkpoint_zero(study, "again-1"))
    os.kill(third.pid, signal.SIGKILL)
    cluster.hasten(again)
    (third,) = catch(study, "again-1")
    (script,) = cluster.pids(again, "bash")
    os.kill(script, signal.SIGKILL)
    # Slurm continues a stopped job when it tells the job to end. If the test did so
    # earlier, the job could finish.
    cluster.hasten(again)

    study.wait()
    check_same(study, undisturbed)
    assert cluster.jobs().keys() - others == mine
    caught = [*first, *second, third]
    assert begun == [checkpoint_zero(study, each.run) for each in caught]
    for run in ("seed-3", "wide", "start-3", "graft"):
        assert (run, study.show(run, "Restarts")) == (run, "1")
    assert study.show("again-1", "Restarts") == "2"
    # submitit prints this before it requeues; afterwards it may be killed at any time.
    for run in ("seed-3", "wide", "graft", "again-1"):
        assert "Caught signal SIGUSR2" in study.log(run)
    assert "Caught signal SIGUSR2" not in study.log("start-3")
    assert (study.folder.logs / f"{again}.kills").read_text() == "137\n"


def _run_out(study: Study, caught: Caught) -> None:
    """Lets a job reach its time limit, then gives it more time."""
    cluster, job = study.cluster, study.id(caught.run)
    start = time.strptime(study.show(caught.run, "StartTime"), "%Y-%m-%dT%H:%M:%S")
    minutes = math.ceil((time.time() - time.mktime(start) + 40) / 60)
    cluster.run("scontrol", "update", f"JobId={job}", f"TimeLimit={minutes}")
    # With its warning, Slurm also continues a stopped job.
    cluster.wait(lambda: cluster.jobs()[job] == "PENDING", 90)
    cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=20")
    cluster.hasten(job)


def _preempt_while_away(study: Study, caught: Caught) -> None:
    """Preempts a job, which learns of it while the controller is away."""
    cluster, job = study.cluster, study.id(caught.run)
    cluster.run("scancel", "--signal=USR2", job)
    with cluster.without_controller():
        caught.go_on(told=signal.SIGUSR2)
        # It first asks if it is still wanted; that takes this long to fail.
        time.sleep(12)
    cluster.wait(lambda: cluster.jobs()[job] == "PENDING", LONG)
    cluster.hasten(job)


PART = ("seed-*", "graft")  # Two of the five jobs.


def test_cancelled_it_stops_and_can_be_launched_again(
    cluster: Cluster, undisturbed: Study, tmp_path: Path
):
    study = Study(cluster, tmp_path / "twelve", PART)
    assert study.launch()[0] == 0
    (caught,) = catch(study, "seed-0")
    begun = checkpoint_zero(study, "seed-0")
    code, output, _ = study.command("cancel")
    assert (code, output) == (0, "2 jobs cancelled\n")
    cluster.wait(lambda: set(study.states().values()) == {"CANCELLED"})
    code, output, _ = study.command("status")
    assert code == 0
    assert "12 runs: 0 finished, 8 new, 4 stopped" in output

    assert study.launch()[0] == 0
    study.wait()
    check_same(study, undisturbed)
    assert checkpoint_zero(study, "seed-0") == begun


def test_killed_too_often_it_fails_until_launched_again(
    cluster: Cluster, undisturbed: Study, tmp_path: Path
):
    study = Study(cluster, tmp_path / "twelve", PART)
    assert study.launch()[0] == 0
    seeds, graft = study.id("seed-0"), study.id("graft")
    (caught,) = catch(study, "seed-0")
    os.kill(caught.pid, signal.SIGKILL)
    for _ in range(3):
        cluster.hasten(seeds)
        cluster.wait(lambda: cluster.pids(seeds))
        for pid in cluster.pids(seeds):
            os.kill(pid, signal.SIGKILL)
        cluster.wait(lambda: cluster.jobs()[seeds] != "RUNNING")
    cluster.wait(lambda: cluster.jobs()[seeds] == "FAILED")
    cluster.wait(lambda: study.show("graft", "Reason") == "DependencyNeverSatisfied")
    code, output, _ = study.command("status")
    assert code == 1
    assert "12 runs: 0 finished, 7 new, 4 stopped, 1 blocked" in output

    assert study.launch()[0] == 0
    assert cluster.jobs()[graft] == "CANCELLED"
    assert study.id("graft") != graft
    study.wait()
    check_same(study, undisturbed)


# Refusals, in one line


def check_refused(done: tuple[int, str, str], said: str) -> None:
    code, output, errors = done
    assert (code, output, errors.count("\n")) == (2, "", 1), errors
    assert errors.startswith("sweeps: ")
    assert said in errors


def test_settings_that_cannot_be_are_refused(cluster: Cluster, tmp_path: Path):
    study = Study(cluster, tmp_path / "twelve", settings="max_job = 3")
    check_refused(study.launch(), "did you mean 'max_jobs'")
    assert not study.folder.path.exists()
    study = Study(cluster, tmp_path / "twelve", settings="partition = 'gpu'")
    code, output, errors = study.launch()
    assert (code, output) == (2, "")
    counts, refusal = errors.splitlines()
    assert counts == "12 runs in 5 jobs"
    assert refusal.startswith(
        "sweeps: sbatch refused: invalid partition specified: gpu"
    )
    assert study.job("seed-0").job_id == ""


def test_a_machine_without_slurm_is_refused(cluster: Cluster, tmp_path: Path):
    study = Study(cluster, tmp_path / "twelve")
    check_refused(study.launch(PATH="/nowhere"), "there is no sbatch on this machine")
    assert not study.folder.path.exists()


def test_a_controller_that_is_away_is_told_and_nothing_written(
    cluster: Cluster, tmp_path: Path
):
    new = Study(cluster, tmp_path / "new" / "twelve")
    study = Study(cluster, tmp_path / "old" / "twelve", PART)
    cluster.drain()
    assert study.launch()[0] == 0
    before, states = study.files(), study.states()
    assert set(states.values()) == {"PENDING"}
    # All at the same time, because each takes ten seconds to fail.
    with concurrent.futures.ThreadPoolExecutor() as pool, cluster.without_controller():
        launches = [pool.submit(each.launch) for each in (new, study)]
        status = pool.submit(study.command, "status")
        cancel = pool.submit(study.command, "cancel")
        for refused in (*launches, cancel):
            check_refused(refused.result(), "Slurm does not answer: ")
        code, output, errors = status.result()
    assert (code, errors) == (0, "")
    assert "Slurm does not answer: " in output
    assert "12 runs: 0 finished, 7 new, 1 waiting, 4 queued" in output
    assert not new.folder.path.exists()
    assert study.files() == before
    assert study.states() == states


# A test that needs no cluster, but belongs to these


def test_a_signal_during_a_callback_is_not_lost():
    """Exceptions cannot leave callbacks, such as JAX's in the garbage collector."""
    asked = []

    def callback(phase, info):
        if not asked:
            asked.append(phase)
            os.kill(os.getpid(), signal.SIGUSR2)

    gc.callbacks.append(callback)
    try:
        with pytest.raises(Stopped) as stop:
            _collect_garbage_and_wait()
    finally:
        gc.callbacks.remove(callback)
    assert asked
    assert stop.value.signal == signal.SIGUSR2


def _collect_garbage_and_wait() -> None:
    with _heeding():
        gc.collect()
        time.sleep(5)
