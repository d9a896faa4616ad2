"""Jobs on this machine: each in its own process through submitit, or in this one."""

import abc
import dataclasses
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from tqdm import tqdm

from icl.devices import cores, on_cpu
from icl.memory import machine_bytes

from ..folder import Folder, Job, last_lines, length_of, Report
from ._alive import process
from ._job import handled, Work


_POLL_SECONDS = 0.2


class _Here(abc.ABC):
    """The devices and the memory of this machine."""

    at_once = 1

    @property
    def gpu(self) -> bool:
        """Whether the devices are GPUs, each with its own memory."""
        return not on_cpu()

    @property
    def device_bytes(self) -> int:
        """One job's share of a device's memory; on a CPU, of the machine's memory."""
        device = jax.devices()[0]
        stats = device.memory_stats() if device.platform != "cpu" else None
        if stats and "bytes_limit" in stats:
            return int(stats["bytes_limit"]) // self.at_once
        return machine_bytes() // self.at_once

    @property
    def devices(self) -> int:
        """The number of devices that a job's members are spread over."""
        return max(len(jax.local_devices()), self.cpu_devices)

    @property
    @abc.abstractmethod
    def cpu_devices(self) -> int:
        """How many JAX devices a job makes of the CPU's cores."""


def _placed(job: Job, cluster: str, number: int) -> Job:
    began = process(number)
    return dataclasses.replace(job, cluster=cluster, job_id=str(number), process=began)


class Debug(_Here):
    """Trains the jobs in this process, one after the other."""

    name = "debug"

    @property
    def cpu_devices(self) -> int:
        """One: JAX runs in this process already, so the CPU cannot be divided."""
        return 1

    def start(self, folder: Folder, works: Sequence[Work], study: str) -> bool:
        """Trains all jobs, even if one fails; returns `True` if all went well."""
        good = True
        for work in works:
            job = _placed(work.job, self.name, os.getpid())
            folder.write_job(job)
            try:
                dataclasses.replace(work, job=job)()
            except (ValueError, RuntimeError, FloatingPointError) as error:
                good = False
                reason = " ".join(str(error).split())
                print(f"job {job.name} failed: {reason}", file=sys.stderr)
        return good


class Local(_Here):
    """Trains each job in its own process, and waits for all."""

    name = "local"

    def __init__(self, at_once: int):
        self.at_once = at_once

    @property
    def cpu_devices(self) -> int:
        """How many JAX devices a job makes of the CPU's cores."""
        if self.gpu:
            return 1
        return max(1, cores() // self.at_once)

    def start(self, folder: Folder, works: Sequence[Work], study: str) -> bool:
        """Trains all jobs; a job starts when the jobs that it needs have succeeded.

        Returns `True` if all succeeded. On Ctrl-C or SIGTERM, the running jobs save and
        stop, and can be resumed.
        """
        return _Queue(folder, works, self.at_once).run(study)


@dataclasses.dataclass(frozen=True)
class _Started:
    """A job in its own process."""

    work: Work
    job: Any
    """Submitit's job."""
    before: Mapping[str, Report | None]
    """The reports of its runs from before it began."""

    @property
    def is_there(self) -> bool:
        """Whether its process still runs."""
        return self.job._process.poll() is None

    def error(self, folder: Folder) -> str | None:
        """Why the job failed, in one line; `None` if it did not.

        This is read from the reports of its runs. Submitit's result is a pickle, and
        reading a pickle could run code that someone else put into the folder.
        """
        errors = {}
        for run in self.work.job.runs:
            said = folder.report(run)
            if said is None or said == self.before[run]:
                said = Report("stopped")  # This process has reported nothing.
            if said.state == "failed":
                errors[run] = said.error
            elif not folder.finished(run, self.work.configs[run]):
                last = last_lines(self.job.paths.stderr, 1)
                lost = last[0].strip() if last else "its process was killed"
                return "; ".join(dict.fromkeys([*errors.values(), lost]))
        # If only some members failed, the others were trained.
        every = len(errors) == len(self.work.job.runs)
        return "; ".join(dict.fromkeys(errors.values())) if every else None


class _Queue:
    """The jobs that wait, that run, and that have failed."""

    def __init__(self, folder: Folder, works: Sequence[Work], at_once: int):
        from submitit import LocalExecutor  # Slow to import.

        self._folder, self._at_once = folder, at_once
        self._waiting = list(works)
        self._running: dict[str, _Started] = {}
        self._bad: set[str] = set()
        self._executor = LocalExecutor(folder.logs, max_num_timeout=1_000_000)
        # A year, which stands for no limit.
        self._executor.update_parameters(timeout_min=60 * 24 * 365, **_gpus())

    def run(self, study: str) -> bool:
        names = [run for work in self._waiting for run in work.job.runs]
        progress = _Progress(self._folder, study, self._waiting, names)
        asked: list[int] = []
        stops = (signal.SIGINT, signal.SIGTERM)
        with progress, handled(stops, lambda number, _: asked.append(number)):
            while (self._waiting or self._running) and not asked:
                self._begin()
                time.sleep(_POLL_SECONDS)
                self._end(progress)
                progress.update()
            if asked:
                self._stop(progress)
                raise KeyboardInterrupt("stopped; run the same command again to resume")
        return not self._bad

    def _begin(self) -> None:
        for work in list(self._waiting):
            pending = {w.job.name for w in self._waiting} | self._running.keys()
            if work.job.needs and self._bad & set(work.job.needs):
                self._waiting.remove(work)
                self._bad.add(work.job.name)
                need = min(self._bad & set(work.job.needs))
                _say(f"job {work.job.name} is not started: it needs job {need}")
            elif pending.isdisjoint(work.job.needs):
                if len(self._running) < self._at_once:
                    self._waiting.remove(work)
                    self._submit(work)

    def _submit(self, work: Work) -> None:
        # The jobs ignore Ctrl-C: this process gets it, and tells them to save.
        before = {run: self._folder.report(run) for run in work.job.runs}
        with handled([signal.SIGINT], signal.SIG_IGN):
            started = self._executor.submit(work)
        self._running[work.job.name] = _Started(work, started, before)
        job = _placed(work.job, Local.name, int(started.job_id))
        self._folder.write_job(job)

    def _end(self, progress: "_Progress") -> None:
        for name, started in list(self._running.items()):
            if started.is_there:
                continue
            del self._running[name]
            progress.update()
            error = started.error(self._folder)
            runs = ", ".join(started.work.job.runs)
            if error is None:
                _say(f"job {name} has ended: {runs}")
            else:
                self._bad.add(name)
                _say(f"job {name} failed: {runs}: {error}")

    def _stop(self, progress: "_Progress") -> None:
        for started in self._running.values():
            started.job._process.send_signal(signal.SIGTERM)
        while self._running:
            time.sleep(_POLL_SECONDS)
            for name, started in list(self._running.items()):
                if not started.is_there:
                    del self._running[name]
        progress.update()


def _say(line: str) -> None:
    tqdm.write(line, file=sys.stderr)


def _gpus() -> dict[str, Any]:
    """Submitit's GPU options; it sets `CUDA_VISIBLE_DEVICES` for each job."""
    if on_cpu():
        return {"gpus_per_node": 0}
    count = len(jax.local_devices())
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if not visible:
        return {"gpus_per_node": count}
    names = visible.split(",")
    if not all(name.strip().isdigit() for name in names):
        wanted = "CUDA_VISIBLE_DEVICES must be numbers, as submitit needs them"
        raise ValueError(f"{wanted}, got {visible!r}")
    return {"gpus_per_node": count, "visible_gpus": tuple(map(int, names))}


class _Progress:
    """A bar over the sequences of all runs; hidden if the output is no terminal."""

    def __init__(self, folder: Folder, study: str, works: Sequence[Work], runs):
        self._folder, self._runs = folder, runs
        configs = {name: c for work in works for name, c in work.configs.items()}
        total = sum(map(length_of, configs.values()))
        self._bar = tqdm(
            total=total, desc=study, unit="seq", unit_scale=True, disable=None
        )
        self._looked = 0.0

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.close()

    def update(self) -> None:
        if self._bar.disable or time.monotonic() - self._looked < 1.0:
            return
        self._looked = time.monotonic()
        reports = [self._folder.report(run) for run in self._runs]
        seen = [report for report in reports if report is not None]
        self._bar.n = sum(report.sequences for report in seen)
        losses = [r.loss for r in seen if r.loss is not None and r.state == "running"]
        if losses:
            self._bar.set_postfix(loss=f"{sum(losses) / len(losses):.4f}")
        self._bar.refresh()
