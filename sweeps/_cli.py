"""The command line: `python -m sweeps STUDY | status | cancel | collect`.

Bad input ends with status 2 and one line on stderr.
"""

import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import h5py
import tyro

from icl._options import parse
from icl.cli import guarded
from icl.data import HDF5Classes
from icl.loggers import check_logger

from ._cluster import default_file, read_cluster
from ._folder import Folder
from ._launch import Executor, Launch, pinned, plan, wanted, works
from ._local import Debug, Local
from ._slurm import cancel as scancel, Slurm
from ._study import list_trials, load_study, names, Scale


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command; ends the process with its status."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    sys.exit(guarded("sweeps", lambda: _dispatch(arguments)))


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0 if arguments else 2
    name, *rest = arguments
    if name in _COMMANDS:
        return _COMMANDS[name](rest)
    return _launch(name, rest)


def _usage() -> str:
    return f"""usage: python -m sweeps STUDY --out DIR [options]   train a study's runs
       python -m sweeps status DIR [--watch] [--failed]
       python -m sweeps cancel DIR
       python -m sweeps collect DIR [--out FILE] [--only PATTERN]

STUDY is {" | ".join(names())}, or the path of a Python file like theirs.
python -m sweeps STUDY --help tells the options."""


@dataclasses.dataclass(frozen=True)
class LaunchOptions:
    """Train the runs of a study; what is finished is skipped, what is not resumed."""

    out: Path
    """The study's folder; each run has a folder of its own in it."""
    cluster: Literal["local", "slurm", "debug"] = "local"
    """Processes of this machine, a Slurm cluster, or this very process."""
    scale: Scale = "small"
    """`smoke`: two minutes on two cores; `small`: an hour on a laptop; `paper`."""
    only: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A pattern of names, such as 'clamp-*'; what these runs need is trained too. May
    be repeated."""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A field of every run's config and its value as JSON, such as
    training.batch_size=64; may be repeated."""
    data: str = ""
    """An HDF5 file of classes, FILE.h5 or FILE.h5:DATASET, in place of the study's."""
    members: int | None = None
    """The most runs to train as one program; as many as memory allows by default."""
    jobs: int = 1
    """How many jobs to run at once, for --cluster local."""
    cluster_file: Path | None = None
    """What to ask Slurm for; see sweeps/cluster.example.toml."""
    logger: str = ""
    """Where else numbers go: tensorboard, wandb or wandb:PROJECT."""
    dry_run: bool = False
    """Print what would be done, with estimates from a measured step; do nothing."""

    def __post_init__(self):
        for name in ("members", "jobs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name} must be at least 1, got {value}")


def _launch(name: str, arguments: list[str]) -> int:
    study, module = load_study(name)
    options = parse(LaunchOptions, arguments, study, program="python -m sweeps")
    executor = _executor(options)
    folder = Folder(options.out)
    trials = list_trials(module, options.scale, folder.path, _data(options.data))
    experiments = pinned(trials, options.set, folder)
    folder.check(study, options.scale)
    asked = wanted(folder, experiments, options.only)
    if options.logger:
        check_logger(options.logger)
    if options.dry_run:
        from ._table import plan_table

        print(plan_table(plan(folder, asked, executor, options.members, measure=True)))
        return 0
    with folder.claimed(study, options.scale):
        made = plan(folder, asked, executor, options.members, measure=False)
        _check_not_waiting(made, executor)
        folder.begin(
            study, options.scale, experiments, made.chosen, made.dropped, made.jobs
        )
        print(_summary(made), file=sys.stderr)
        good = executor.start(folder, works(made, options.logger), study)
    if executor.name == "slurm":
        print(f"python -m sweeps status {options.out}", file=sys.stderr)
    failed = [*_failures(folder, made, waits=executor.name != "slurm")]
    for line in failed:
        print(line, file=sys.stderr)
    return 0 if good and not failed else 1


def _failures(folder: Folder, made: Launch, waits: bool) -> Iterator[str]:
    """A line for each run that was launched and failed, or that had failed before."""
    trained = {run for job in made.jobs for run in job.runs} if waits else set()
    for run in made.chosen:
        report = folder.report(run)
        known = run in trained or run in made.finished
        if known and report is not None and report.state == "failed":
            yield f"{run} failed: {report.error}"


def _executor(options: LaunchOptions) -> Executor:
    # JAX would keep most of a GPU's memory for this process.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if options.cluster == "slurm":
        return Slurm(read_cluster(options.cluster_file or default_file()))
    if options.cluster_file is not None:
        raise ValueError("--cluster-file is for --cluster slurm")
    return Local(options.jobs) if options.cluster == "local" else Debug()


def _data(text: str) -> HDF5Classes | None:
    if not text:
        return None
    file, colon, path = text.rpartition(":")
    if not colon or os.path.exists(text):
        file, path = text, ""
    source = HDF5Classes(os.path.abspath(file), path)
    if not Path(source.file).is_file():
        raise ValueError(f"--data: there is no file {source.file}")
    if not h5py.is_hdf5(source.file):
        raise ValueError(f"--data: {source.file} is not an HDF5 file")
    return source


def _check_not_waiting(made: Launch, executor: Executor) -> None:
    """Jobs that are elsewhere cannot be waited for by this launch."""
    for job in made.queued if made.jobs else ():
        if job.cluster == executor.name == "slurm":
            continue
        needed = any(job.name in other.needs for other in made.jobs)
        if job.cluster != "slurm" or needed:
            raise ValueError(
                f"job {job.name} of an earlier launch is still there ({job.cluster}, "
                f"{job.job_id}); wait for it, or python -m sweeps cancel "
                f"{made.folder.path}"
            )


def _summary(made: Launch) -> str:
    runs = sum(len(job.runs) for job in made.jobs)
    queued = sum(len(job.runs) for job in made.queued)
    parts = [f"{runs} runs in {len(made.jobs)} jobs"]
    if made.finished:
        parts.append(f"{len(made.finished)} finished before")
    if queued:
        parts.append(f"{queued} queued or running already")
    return ", ".join(parts)


@dataclasses.dataclass(frozen=True)
class CancelOptions:
    """Stop a study's jobs where they can be resumed; launching it again goes on."""

    folder: tyro.conf.Positional[Path]
    """The study's folder."""


def _cancel(arguments: list[str]) -> int:
    from ._alive import alive_jobs
    from ._process import stop

    options = parse(CancelOptions, arguments, "cancel", program="python -m sweeps")
    folder = Folder(options.folder)
    folder.read()
    jobs = folder.jobs
    alive = [jobs[name] for name in alive_jobs(jobs.values())]
    scancel(job.job_id for job in alive if job.cluster == "slurm")
    stop(folder, [job for job in alive if job.cluster != "slurm"])
    print(f"{len(alive)} job{'' if len(alive) == 1 else 's'} cancelled")
    return 0


def _status(arguments: list[str]) -> int:
    from ._status import status

    return status(arguments)


def _collect(arguments: list[str]) -> int:
    from ._collect import collect

    return collect(arguments)


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "status": _status,
    "cancel": _cancel,
    "collect": _collect,
}
