"""The code of a job's process: it trains the runs as members of one program."""

import contextlib
import dataclasses
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from icl import Experiment
from icl.config import from_json
from icl.devices import divide_cpu
from icl.experiments import run_experiments
from icl.plugins import import_plugin
from icl.program_cache import keep_programs
from icl.training import Stopped
from icl.training.loggers import Logger, open_logger, Several

from ..folder import Folder, Job, Report


# Warnings before a kill: all schedulers send SIGTERM, submitit sends the others.
_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_REPORT_SECONDS = 5.0
# How long to retry while Slurm's controller is down; the job is killed sooner.
_REQUEUE_SECONDS = 600.0


@dataclasses.dataclass(frozen=True)
class Work:
    """A job as it is sent to its process; calling it trains the runs.

    After an interruption it can be called again; the runs resume.
    """

    folder: Path
    job: Job
    configs: Mapping[str, dict[str, Any]]
    """The experiment of each run as JSON."""
    logger: str = ""
    """As for `icl.training.loggers.open_logger`."""
    plugins: tuple[str, ...] = ()
    """Plug-ins to import before the configs are read, such as the study's file."""

    def __call__(self) -> None:
        """Trains the runs to their end.

        **Raises:** `RuntimeError` if all of them failed; otherwise what `fit` raises.
        """
        divide_cpu(self.job.cpu_devices)
        keep_programs()
        with _heeding():
            try:
                self._train()
            except Stopped as stop:
                asked = stop.signal
            else:
                return
        # All is saved. Now the earlier handler of this signal decides: submitit's calls
        # `checkpoint` and requeues.
        _pass_on(asked)

    def checkpoint(self) -> Any:
        """The job that submitit submits after a preemption: this one again."""
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
        except KeyboardInterrupt:  # `Stopped` is a subclass.
            for index in others():
                reporters[index].ended("stopped")
            raise
        except BaseException as error:
            for index in others():
                # A finished run did not fail.
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
    """A logger that writes a run's progress to the study's folder."""

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
        """Reports that the run's process has started."""
        self.folder.write_report(self.run, self._report)

    def log(self, sequences: int, metrics: Mapping[str, float]) -> None:
        """Reports how far the run is."""
        now = time.monotonic()
        if self._first is None and "train/loss" in metrics:
            # The time before this was compilation.
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
        """Does nothing: `ended` reports the end."""

    def ended(self, state: Any, error: str = "") -> None:
        """Reports how the run ended."""
        report = dataclasses.replace(self._report, state=state, error=error)
        self.folder.write_report(self.run, report)


def job_id() -> str:
    """The scheduler's id of this process's job; without one, the process number."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    if array:
        return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    return os.environ.get("SLURM_JOB_ID") or str(os.getpid())


@contextlib.contextmanager
def _heeding() -> Iterator[None]:
    """Stops at once on a signal outside of training, where nothing needs saving."""

    def stop(number, frame):
        raise Stopped(number, 0)

    def lost(unraisable):
        # The signal came during a callback, such as JAX's of the garbage collector, and
        # nothing can be raised from there: send it again.
        error = unraisable.exc_value
        if isinstance(error, Stopped):
            again = os.getpid(), error.signal
            threading.Timer(0.1, os.kill, again).start()
        else:
            hook(unraisable)

    hook, sys.unraisablehook = sys.unraisablehook, lost
    try:
        with handled(_SIGNALS, stop):
            yield
    finally:
        sys.unraisablehook = hook


@contextlib.contextmanager
def handled(numbers: Iterable[int], handler: Any) -> Iterator[None]:
    """Handles signals in another way, to the end of the block."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _pass_on(asked: int) -> None:
    """After a stop, ends this process or makes submitit requeue the job."""
    if os.environ.get("SUBMITIT_EXECUTOR") == "slurm" and _still_wanted():
        _requeue()
    sys.exit(128 + asked)


def _requeue() -> None:
    """Makes submitit's handler call `checkpoint`, requeue, and end this process.

    Retries for a while, as requeueing needs Slurm's controller, which may be down.
    """
    from submitit import JobEnvironment  # Slow to import.

    until = time.monotonic() + _REQUEUE_SECONDS
    while True:
        try:
            os.kill(os.getpid(), JobEnvironment._usr_sig())
            time.sleep(1)  # Python runs the handler between two instructions.
        except (subprocess.SubprocessError, OSError):
            if time.monotonic() > until:
                raise
            time.sleep(5)


def _still_wanted() -> bool:
    """Whether we should requeue this job after Slurm's signal.

    Jobs that Slurm cancels or requeues itself also get a SIGTERM, and are completing by
    then: our requeue would revive a cancelled job, and fail for a requeued one. But a
    job that is at its limit, or lost its batch script, is requeued by nobody else.
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
