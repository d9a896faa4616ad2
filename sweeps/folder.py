"""The study folder on disk: the plan, the submitted jobs, and each run's progress.

Each `<run>/` is a run folder. `_sweep/` holds `study.json`, the config of every run;
`jobs/<job>.json`, the runs of a job and where it was submitted; `runs/<run>.json`, the
last report of a run's process; and `logs/`, submitit's files.
"""

import contextlib
import dataclasses
import json
import os
import platform
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from icl import Experiment, Run
from icl.config import from_json, to_json
from icl.files import temporary_of, write_bytes
from icl.plugins import imported, made_with
from icl.runs import (
    disk,
    lock,
    read_object,
    resume_points,
    total_sequences,
)


@dataclasses.dataclass(frozen=True)
class Job:
    """Runs that train together, as stored on disk."""

    name: str
    """Unique within the study: `000`, `001`, …."""
    runs: tuple[str, ...]
    """The names of its runs."""
    needs: tuple[str, ...]
    """The names of the jobs whose checkpoints this one reads."""
    cpu_devices: int
    """How many JAX devices to make of the CPU's cores. On a GPU, all GPUs are used."""
    cluster: str = ""
    """Where it was last submitted: `local`, `slurm`, `debug`; empty if never."""
    job_id: str = ""
    """Its id there; on this machine, the process number."""
    process: str = ""
    """On this machine, the host and start time of the process: numbers are reused."""


RunState = Literal["running", "finished", "failed", "stopped"]


@dataclasses.dataclass(frozen=True)
class Report:
    """The last report of a run's process."""

    state: RunState
    sequences: int = 0
    rate: float = 0.0
    """Sequences a second since this process began to train."""
    loss: float | None = None
    """The mean over the last steps."""
    error: str = ""
    """Why it failed, in one line."""
    job: str = ""
    job_id: str = ""
    host: str = ""
    time: float = 0.0
    """When it was written, in seconds since 1970."""


class Folder:
    """The folder of a study."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(os.path.abspath(path))
        self.sweep = self.path / "_sweep"
        self.logs = self.sweep / "logs"

    def run(self, name: str) -> Path:
        """The folder of the run `name`."""
        return self.path / name

    def log_file(self, job: Job, kind: str) -> Path:
        """The path of submitit's `log.out`, `log.err` or `result.pkl` of a job."""
        return self.logs / f"{job.job_id}_0_{kind}"

    @property
    def is_study(self) -> bool:
        """Whether a study was launched in this folder."""
        return (self.sweep / "study.json").is_file()

    def read(self) -> dict[str, Any]:
        """Reads `study.json`: the study, its scale, and each run's planned config.

        It also lists the plug-ins that launches imported, such as the study's own file.

        **Raises:** `ValueError` if there is no study, or the file is damaged.
        """
        file = self.sweep / "study.json"
        if not self.is_study:
            raise ValueError(f"{self.path} is not the folder of a study")
        found = read_object(file)
        if not _is_study(found):
            raise ValueError(f"{file} is damaged: it does not say what the study is")
        return found

    @property
    def configs(self) -> dict[str, dict[str, Any]]:
        """The config of each run by name: the one in its folder, or the planned one."""
        planned = self.read()["runs"]
        return {name: self.config(name) or plan for name, plan in planned.items()}

    @property
    def experiments(self) -> dict[str, Experiment]:
        """The experiment of every run by name.

        **Raises:** `ValueError` for a config that needs a plug-in that is not imported;
        the message names the plug-in.
        """
        configs = self.configs
        with made_with(self.read().get("plugins", ())):
            return {name: from_json(Experiment, c) for name, c in configs.items()}

    def check(self, study: str, scale: str) -> None:
        """Raises `ValueError` unless the study can start or continue in this folder."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"--out: {self.path} is a file; name a folder")
        if self.is_study:
            found = self.read()
            if (found["study"], found["scale"]) != (study, scale):
                has = f"{found['study']!r} at scale {found['scale']!r}"
                raise ValueError(
                    f"--out: {self.path} belongs to the study {has}, not to {study!r} "
                    f"at scale {scale!r}"
                )
            if found["folder"] != str(self.path):
                raise ValueError(
                    f"--out: {self.path} was made as {found['folder']} and moved; its "
                    "runs refer to each other by the old path: move it back, or use a "
                    "new folder"
                )
        elif self.path.is_dir():
            # A launch that was killed at once leaves only `_sweep`.
            names = {file.name for file in self.path.iterdir()} - {"_sweep"}
            if names:
                raise ValueError(
                    f"--out: {self.path} is not empty and not the folder of a study "
                    f"(it holds {min(names)})"
                )

    @contextlib.contextmanager
    def claimed(self, study: str, scale: str) -> Iterator[None]:
        """Locks the folder for this process, and makes it if it does not exist.

        **Raises:** `ValueError` as `check`, and if another launch has locked it.
        """
        self.check(study, scale)
        with disk(self.path):
            for part in ("jobs", "runs", "logs"):
                (self.sweep / part).mkdir(parents=True, exist_ok=True)
        with lock(self.sweep):
            yield

    @property
    def launcher(self) -> int | None:
        """The process that last claimed the folder, if it was on this machine."""
        try:
            text = (self.sweep / ".lock").read_bytes().decode(errors="replace")
        except OSError:
            return None
        found = re.fullmatch(r"process (\d+) on (.*)", text)
        return int(found[1]) if found and found[2] == platform.node() else None

    def begin(
        self,
        study: str,
        scale: str,
        experiments: Mapping[str, Experiment],
        chosen: Collection[str],
        dropped: Iterable[str],
        jobs: Iterable[Job],
    ) -> None:
        """Writes what a launch is about to do.

        Runs that were planned before and are not chosen now keep their configs.
        """
        file = self.sweep / "study.json"
        found = self.read() if self.is_study else {}
        before = found.get("runs", {})
        new = {
            name: to_json(experiment)
            for name, experiment in experiments.items()
            if name in chosen or name not in before
        }
        content = {
            "study": study,
            "scale": scale,
            "folder": str(self.path),
            # Earlier launches may have planned runs that need others.
            "plugins": [*dict.fromkeys([*found.get("plugins", ()), *imported()])],
            "runs": before | new,
        }
        self._write(file, content)
        with disk(self.path):
            for name in dropped:
                self._job_file(name).unlink(missing_ok=True)
        for job in jobs:
            self.write_job(job)

    @property
    def jobs(self) -> dict[str, Job]:
        """The stored jobs by name, sorted by name."""
        found = {}
        for file in sorted((self.sweep / "jobs").glob("*.json")):
            try:
                job = from_json(Job, read_object(file))
                # It receives signals; 0 and negative numbers mean many processes.
                here = job.cluster in ("local", "debug")
                if here and job.process and not re.fullmatch("[1-9][0-9]*", job.job_id):
                    wanted = "the number of a process"
                    raise ValueError(f"job_id must be {wanted}, got {job.job_id!r}")
                found[file.stem] = job
            except ValueError as error:
                raise ValueError(f"{file} is damaged: {error}") from None
        return found

    def write_job(self, job: Job) -> None:
        """Stores a job."""
        self._write(self._job_file(job.name), to_json(job))

    def report(self, run: str) -> Report | None:
        """The last report of a run's process; `None` if there is no readable one."""
        file = self.sweep / "runs" / f"{run}.json"
        try:
            return from_json(Report, read_object(file))
        except ValueError:
            return None

    def write_report(self, run: str, report: Report) -> None:
        """Stores a run's report with the time; a disk error is ignored."""
        report = dataclasses.replace(report, time=time.time())
        file = self.sweep / "runs" / f"{run}.json"
        temporary = temporary_of(file)
        # No fsync: training waits for this, and a lost report does no harm.
        with contextlib.suppress(OSError):
            temporary.write_text(json.dumps(to_json(report), indent=2))
            os.replace(temporary, file)

    def finished(self, name: str, run: Experiment | Mapping[str, Any]) -> bool:
        """Whether a run has been trained to its full length.

        Only resume points count, as a later process continues from them; the stored
        config and the checkpoints do not. To know whether a run can be read to its end,
        use `icl.runs.is_finished`.

        **Arguments:**

        - `run`: The experiment or its config, which says how long the run is.
        """
        return self.sequences(name) >= length_of(run)

    def sequences(self, name: str) -> int:
        """The sequences seen at the last resume point; 0 if there is none."""
        return max(self.points(name), default=0)

    def points(self, name: str) -> set[int]:
        """The sequences seen at each resume point of a run."""
        return {*resume_points(self.run(name))}

    def config(self, name: str) -> dict[str, Any] | None:
        """The config in a run's folder; `None` if the run has not begun."""
        try:
            return Run(self.run(name)).config
        except ValueError:
            return None

    def _job_file(self, name: str) -> Path:
        return self.sweep / "jobs" / f"{name}.json"

    def _write(self, file: Path, content: Any) -> None:
        with disk(self.path):
            write_bytes(file, json.dumps(content, indent=2).encode())


def last_lines(file: Path, count: int) -> list[str]:
    """The last lines of a file, without empty ones and rules at its end.

    There are none if the file is missing.
    """
    try:
        with open(file, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - 2**16))
            text = stream.read().decode(errors="replace")
    except OSError:
        return []
    lines = text.splitlines()
    while lines and not lines[-1].strip(" -\t"):
        lines.pop()
    return lines[-count:]


def length_of(run: Experiment | Mapping[str, Any]) -> int:
    """How many sequences a run sees in whole batches, from its experiment or config."""
    if isinstance(run, Experiment):
        return run.training.seen_sequences
    return total_sequences(run)


def _is_study(found: Mapping[str, Any]) -> bool:
    """Whether an object has the form of `study.json`."""
    try:
        texts = [found["study"], found["scale"], found["folder"]]
        plugins = found.get("plugins", [])
        for config in found["runs"].values():
            total_sequences(config)  # Each config says how long its run is.
    except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError):
        return False
    if not isinstance(plugins, list):
        return False
    return all(isinstance(text, str) and text for text in [*texts, *plugins])
