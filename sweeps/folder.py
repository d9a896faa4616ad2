"""The study folder on disk: what is planned, what was submitted, how far it is.

`<run>/` are the run folders. `_sweep/` holds `study.json`, what all runs are;
`jobs/<job>.json`, which runs each job trains and where it was submitted;
`runs/<run>.json`, what a run's process last said of it; and `logs/`, submitit's files.
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
    total_sequences as config_total,
)


@dataclasses.dataclass(frozen=True)
class Job:
    """Runs that train together, as they are kept on disk."""

    name: str
    """Unique within the study: `000`, `001`, …."""
    runs: tuple[str, ...]
    """The names of its members."""
    needs: tuple[str, ...]
    """The jobs whose checkpoints it reads."""
    cpu_devices: int
    """Over how many devices a CPU's cores are divided; on others, all are used."""
    cluster: str = ""
    """Where it was submitted last: `local`, `slurm`, `debug`; empty if it was not."""
    job_id: str = ""
    """What it is called there; of this machine, the number of its process."""
    process: str = ""
    """Of a machine's processes, the host and when it began: numbers come again."""


RunState = Literal["running", "finished", "failed", "stopped"]


@dataclasses.dataclass(frozen=True)
class Report:
    """What a run's process last said of it."""

    state: RunState
    sequences: int = 0
    rate: float = 0.0
    """Sequences a second, since the process has begun to train."""
    loss: float | None = None
    """The mean over the last steps."""
    error: str = ""
    """Why it failed, in one line."""
    job: str = ""
    job_id: str = ""
    host: str = ""
    time: float = 0.0
    """When that was, in seconds since 1970."""


class Folder:
    """The folder of a study."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(os.path.abspath(path))
        self.sweep = self.path / "_sweep"
        self.logs = self.sweep / "logs"

    def run(self, name: str) -> Path:
        """The run folder of that name."""
        return self.path / name

    @property
    def is_study(self) -> bool:
        """Whether it is the folder of a study that was launched."""
        return (self.sweep / "study.json").is_file()

    def read(self) -> dict[str, Any]:
        """What `study.json` says: the study, its scale, and each run's planned config.

        Also the file of the study and other plug-ins that launches of it imported.

        **Raises:** `ValueError` if there is no study.
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
        """The config of each run by its name: its folder's own, or as planned."""
        planned = self.read()["runs"]
        return {name: self.config(name) or plan for name, plan in planned.items()}

    @property
    def experiments(self) -> dict[str, Experiment]:
        """Every run of the study by its name.

        **Raises:** `ValueError` for kinds of a plug-in; it says what to import.
        """
        configs = self.configs
        with made_with(self.read().get("plugins", ())):
            return {name: from_json(Experiment, c) for name, c in configs.items()}

    def check(self, study: str, scale: str) -> None:
        """Raises `ValueError` unless a study can be, or go on, in this folder."""
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
                    "runs name each other by that path: move it back, or start another"
                )
        elif self.path.is_dir():
            # `_sweep` alone is what a launch leaves that was killed at once.
            names = {file.name for file in self.path.iterdir()} - {"_sweep"}
            if names:
                raise ValueError(
                    f"--out: {self.path} is not empty and not the folder of a study "
                    f"(it holds {min(names)})"
                )

    @contextlib.contextmanager
    def claimed(self, study: str, scale: str) -> Iterator[None]:
        """Keeps the folder for this process, and makes it if it is not there.

        **Raises:** `ValueError` as `check`, and if another launch is at work in it.
        """
        self.check(study, scale)
        with disk(self.path):
            for part in ("jobs", "runs", "logs"):
                (self.sweep / part).mkdir(parents=True, exist_ok=True)
        with lock(self.sweep):
            yield

    @property
    def launcher(self) -> int | None:
        """The process on this machine that was the last to claim the folder."""
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

        Of the runs that were planned before and are not chosen now, nothing changes.
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
            # Of runs that earlier launches planned too.
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
        """The jobs that were made, by name, in order."""
        found = {}
        for file in sorted((self.sweep / "jobs").glob("*.json")):
            try:
                job = from_json(Job, read_object(file))
                # Signals are sent to it; 0 and less are many processes.
                here = job.cluster in ("local", "debug")
                if here and job.process and not re.fullmatch("[1-9][0-9]*", job.job_id):
                    wanted = "the number of a process"
                    raise ValueError(f"job_id must be {wanted}, got {job.job_id!r}")
                found[file.stem] = job
            except ValueError as error:
                raise ValueError(f"{file} is damaged: {error}") from None
        return found

    def write_job(self, job: Job) -> None:
        """Keeps a job."""
        self._write(self._job_file(job.name), to_json(job))

    def report(self, run: str) -> Report | None:
        """What a run's process last said; `None` if it never did."""
        file = self.sweep / "runs" / f"{run}.json"
        try:
            return from_json(Report, read_object(file))
        except ValueError:
            return None

    def write_report(self, run: str, report: Report) -> None:
        """Says how a run goes, if the disk lets it."""
        report = dataclasses.replace(report, time=time.time())
        file = self.sweep / "runs" / f"{run}.json"
        temporary = temporary_of(file)
        # Not to the disk at once, as training waits, and it is only news.
        with contextlib.suppress(OSError):
            temporary.write_text(json.dumps(to_json(report), indent=2))
            os.replace(temporary, file)

    def finished(self, name: str, run: Experiment | Mapping[str, Any]) -> bool:
        """Whether there is nothing to train any more of a run, or of that of a config.

        Its own config does not matter, nor do its checkpoints: a later process goes on
        from resume points. `icl.runs.is_finished` is for one who reads the run.
        """
        return self.sequences(name) >= total_sequences(run)

    def sequences(self, name: str) -> int:
        """How far the run is that a later process resumes."""
        return max(self.points(name), default=0)

    def points(self, name: str) -> set[int]:
        """The sequences seen where a later process can resume the run."""
        return {*resume_points(self.run(name))}

    def config(self, name: str) -> dict[str, Any] | None:
        """The config in a run's folder; `None` if it has not begun."""
        try:
            return Run(self.run(name)).config
        except ValueError:
            return None

    def _job_file(self, name: str) -> Path:
        return self.sweep / "jobs" / f"{name}.json"

    def _write(self, file: Path, content: Any) -> None:
        with disk(self.path):
            write_bytes(file, json.dumps(content, indent=2).encode())


def total_sequences(run: Experiment | Mapping[str, Any]) -> int:
    """How many sequences a run sees, or one of this config, in whole batches."""
    if isinstance(run, Experiment):
        return run.training.seen_sequences
    return config_total(run)


def _is_study(found: Mapping[str, Any]) -> bool:
    """Whether an object is what `study.json` holds."""
    texts = [found.get(name) for name in ("study", "scale", "folder")]
    runs, plugins = found.get("runs"), found.get("plugins", [])
    if not (isinstance(runs, dict) and isinstance(plugins, list)):
        return False
    whole = all(isinstance(text, str) and text for text in [*texts, *plugins])
    return whole and all(map(_is_config, runs.values()))


def _is_config(found: Any) -> bool:
    """Whether it can be told how long a run of this config is."""
    try:
        config_total(found)
    except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError):
        return False
    return isinstance(found, dict)
