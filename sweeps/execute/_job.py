"""What runs in a job's process: its runs, trained as the members of one program."""

import contextlib
import dataclasses
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from icl import Experiment
from icl.config import from_json
from icl.experiments import run_experiments
from icl.plugins import import_plugin
from icl.training import Stopped
from icl.training.loggers import Logger, open_logger, Several

from ..folder import Folder, Job, Report
from ..plan import divide_cpu


# What schedulers send before they kill: SIGTERM of all, the others of submitit's.
_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_REPORT_SECONDS = 5.0
# How long to try while Slurm's controller is away; a job has less left than that.
_REQUEUE_SECONDS = 600.0


@dataclasses.dataclass(frozen=True)
class Work:
    """A job as it is sent to its process; calling it trains.

    It can be called again whenever it was cut off: what is there is resumed.
    """

    folder: Path
    job: Job
    configs: Mapping[str, dict[str, Any]]
    """The experiment of each run as JSON."""
    logger: str = ""
    """As `icl.training.loggers.open_logger` takes it."""
    plugins: tuple[str, ...] = ()
    """What is imported before the configs are read: the study's file among them."""

    def __call__(self) -> None:
        """Trains the runs to their end.

        **Raises:** `RuntimeError` if all of them failed; what `fit` raises otherwise.
        """
        divide_cpu(self.job.cpu_devices)
        with _heeding():
            try:
                self._train()
            except Stopped as stop:
                asked = stop.signal
            else:
                return
        # Whoever handled this signal before us decides now: submitit calls
        # `checkpoint` and requeues. What there was is saved.
        _pass_on(asked)

    def checkpoint(self) -> Any:
        """What submitit runs in place of this job once it was preempted: the same."""
        from submitit.helpers import DelayedSubmission  # Slow to import.

        return DelayedSubmission(self)

    def _train(self) -> None:
        folder, names = Folder(self.folder), list(self.configs)
        reporters = [_Reporter(folder, name, self.job.name) for name in names]
        for reporter in reporters:
            reporter.began()
        failed: dict[int, str] = {}

        def fail(index: int, error: BaseException | str) -> None:
            failed[index] = " ".join(str(error).split()) or type(error).__name__
            reporters[index].ended("failed", failed[index])

        def others() -> list[int]:
            return [k for k in range(len(names)) if k not in failed]

        try:
            experiments = self._experiments()
        except ValueError as error:
            for index in others():
                fail(index, error)
            raise
        try:
            results = run_experiments(
                experiments,
                [folder.run(name) for name in names],
                resume=True,
                loggers=[self._logger(reporter) for reporter in reporters],
                on_failure=fail,
            )
        except KeyboardInterrupt:  # `Stopped` is one.
            for index in others():
                reporters[index].ended("stopped")
            raise
        except BaseException as error:
            for index in others():
                # Of what is finished there is nothing more to say.
                if not folder.finished(names[index], experiments[index]):
                    fail(index, error)
            raise
        for index, result in zip(others(), results, strict=True):
            if result.diverged:
                fail(index, f"diverged: {result.diverged}")
            else:
                reporters[index].ended("finished")
        if len(failed) == len(names):
            raise RuntimeError(f"all runs failed: {'; '.join(failed.values())}")

    def _experiments(self) -> list[Experiment]:
        for name in self.plugins:
            import_plugin(name)
        return [from_json(Experiment, config) for config in self.configs.values()]

    def _logger(self, reporter: "_Reporter") -> Logger:
        if not self.logger:
            return reporter
        folder = Folder(self.folder)
        wanted = open_logger(
            self.logger,
            name=reporter.run,
            folder=folder.sweep / "loggers" / reporter.run,
            config=self.configs[reporter.run],
        )
        return Several([reporter, wanted])


class _Reporter:
    """A logger that writes how a run goes to the study's folder."""

    def __init__(self, folder: Folder, run: str, job: str):
        self.folder, self.run = folder, run
        known = folder.report(run)
        began = folder.sequences(run)
        self._report = Report(
            "running",
            sequences=began,
            loss=known.loss if known else None,
            job=job,
            job_id=job_id(),
            host=platform.node(),
        )
        self._first: tuple[float, int] | None = None
        self._written = -_REPORT_SECONDS

    def began(self) -> None:
        """Notes that its process is at work."""
        self.folder.write_report(self.run, self._report)

    def log(self, sequences: int, metrics: Mapping[str, float]) -> None:
        """Notes how far the run is."""
        now = time.monotonic()
        if self._first is None and "train/loss" in metrics:
            # Before it came the compilation.
            self._first = now, sequences
        start, first = self._first or (now, sequences)
        rate = (sequences - first) / (now - start) if now > start else 0.0
        loss = metrics.get("train/loss", self._report.loss)
        self._report = dataclasses.replace(
            self._report, sequences=sequences, rate=rate, loss=loss
        )
        if now - self._written >= _REPORT_SECONDS:
            self.folder.write_report(self.run, self._report)
            self._written = time.monotonic()

    def close(self) -> None:
        """Does nothing: `ended` says how it ended."""

    def ended(self, state: Any, error: str = "") -> None:
        """Notes how it ended."""
        report = dataclasses.replace(self._report, state=state, error=error)
        self.folder.write_report(self.run, report)


def job_id() -> str:
    """What the scheduler calls this process's job; its process number without one."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    if array:
        return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    return os.environ.get("SLURM_JOB_ID") or str(os.getpid())


@contextlib.contextmanager
def _heeding() -> Iterator[None]:
    """Outside of training, where nothing needs saving, a signal stops at once."""

    def stop(number, frame):
        raise Stopped(number, 0)

    def lost(unraisable):
        # It came during a callback, JAX's of the garbage collector say, out of which
        # nothing is raised.
        error = unraisable.exc_value
        if isinstance(error, Stopped):
            again = os.getpid(), error.signal
            threading.Timer(0.1, os.kill, again).start()
        else:
            hook(unraisable)

    hook, sys.unraisablehook = sys.unraisablehook, lost
    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def _pass_on(asked: int) -> None:
    """Ends this process, or has submitit requeue the job, after it was stopped."""
    executor = os.environ.get("SUBMITIT_EXECUTOR")
    if executor == "slurm" and _still_wanted():
        _requeue(until=time.monotonic() + _REQUEUE_SECONDS)
    elif executor == "local" and asked in (signal.SIGUSR1, signal.SIGUSR2):
        _requeue(until=time.monotonic())
    sys.exit(128 + asked)


def _requeue(until: float) -> None:
    """Has submitit's handler call `checkpoint`, requeue, and end this process.

    Slurm's controller may be away just now; without it there is no requeueing.
    """
    from submitit import JobEnvironment  # Slow to import.

    while True:
        try:
            os.kill(os.getpid(), JobEnvironment._usr_sig())
            time.sleep(1)  # Python runs the handler between two instructions.
        except (subprocess.SubprocessError, OSError):
            if time.monotonic() > until:
                raise
            time.sleep(5)


def _still_wanted() -> bool:
    """Whether Slurm would go on with this job, which it has only sent a signal.

    A job that it cancels or requeues itself gets a SIGTERM too, and is completing by
    then: a requeue of ours would revive the one and fail on the other. Of a job that
    is at its limit, or lost its batch script, nobody else takes care.
    """
    command = ["squeue", "--noheader", "--job", job_id(), "--format", "%T %r"]
    until = time.monotonic() + _REQUEUE_SECONDS
    while True:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(command, capture_output=True, text=True, timeout=30)
            if done.returncode == 0:
                state, _, reason = done.stdout.strip().partition(" ")
                return state == "RUNNING" or reason in ("JobLaunchFailure", "TimeLimit")
        if time.monotonic() > until:
            return False
        time.sleep(5)
