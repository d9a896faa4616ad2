"""The command line: `python -m sweeps STUDY | status | cancel | collect | figure`.

Bad input ends with status 2 and one line on stderr.
"""

import dataclasses
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import tyro

from icl.cli import guarded
from icl.cli.options import CommandOptions, parse
from icl.data import classes_in
from icl.plugins import import_from
from icl.program_cache import keep_programs
from icl.training.loggers import check_logger

from .execute import (
    alive_jobs,
    cancel_jobs,
    executor_of,
    plan,
    plan_table,
    stop,
    train,
)
from .figures.command import figure
from .folder import Folder
from .options import TrainingOptions
from .plan import experiments_of, wanted
from .study import list_trials, load_study, study_names
from .watch import collect_command, status


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command and ends the process with its status."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    sys.exit(guarded("sweeps", lambda: _dispatch(import_from(arguments))))


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0 if arguments else 2
    keep_programs()
    name, *rest = arguments
    if name in _COMMANDS:
        return _COMMANDS[name](rest)
    return _launch(name, rest)


def _usage() -> str:
    return f"""usage: python -m sweeps STUDY --out DIR [options]   train a study's runs
       python -m sweeps status DIR [--watch] [--failed]
       python -m sweeps cancel DIR
       python -m sweeps collect DIR [--out FILE] [--only PATTERN]
       python -m sweeps figure [NAME] [options]         train, measure, draw a figure

STUDY is {" | ".join(study_names())}, or the path of a Python file like theirs.
python -m sweeps STUDY --help lists the options. Every command takes --import MODULE:
it imports a module or a file.py of yours that defines tasks, models, edits or measures.
It may be repeated. The study's own file may define them too."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LaunchOptions(TrainingOptions):
    """Train the runs of a study. Finished runs are skipped, unfinished ones resumed."""

    EXAMPLE: ClassVar[str] = (
        "python -m sweeps induction --out runs/induction --scale smoke"
    )

    out: Path
    """The study's folder; each run gets its own folder in it."""
    only: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A pattern of run names, such as 'clamp-*'. Runs that these need are trained too.
    May be repeated."""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A config field and its JSON value, set for every run, such as
    training.batch_size=64. May be repeated."""
    members: int | None = None
    """The largest number of runs in one program. The default is as many as memory
    allows."""
    logger: str = ""
    """Also log to tensorboard, wandb or wandb:PROJECT."""

    def __post_init__(self):
        super().__post_init__()
        if self.members is not None and self.members < 1:
            raise ValueError(f"--members must be at least 1, got {self.members}")


def _launch(name: str, arguments: list[str]) -> int:
    study, module = load_study(name)
    options = parse(LaunchOptions, arguments, study, program="python -m sweeps")
    executor = executor_of(options.cluster, options.cluster_file, options.jobs)
    folder = Folder(options.out)
    data = classes_in(options.data) if options.data else None
    trials = list_trials(module, options.scale, folder.path, data)
    experiments = experiments_of(trials, options.set, folder)
    folder.check(study, options.scale)
    asked = wanted(folder, experiments, options.only)
    if options.logger:
        check_logger(options.logger)
    if options.dry_run:
        print(plan_table(plan(folder, asked, executor, options.members, measure=True)))
        return 0
    members, logger = options.members, options.logger
    good = train(
        folder, study, options.scale, asked, executor, members=members, logger=logger
    )
    if executor.name == "slurm":
        print(f"python -m sweeps status {options.out}", file=sys.stderr)
    return 0 if good else 1


@dataclasses.dataclass(frozen=True)
class CancelOptions(CommandOptions):
    """Stop a study's jobs. They save first, and the next launch resumes them."""

    EXAMPLE: ClassVar[str] = "python -m sweeps cancel runs/induction"

    folder: tyro.conf.Positional[Path]
    """The study's folder."""


def _cancel(arguments: list[str]) -> int:
    options = parse(CancelOptions, arguments, "cancel", program="python -m sweeps")
    folder = Folder(options.folder)
    folder.read()
    jobs = folder.jobs
    alive = [jobs[name] for name in alive_jobs(jobs.values())]
    cancel_jobs(job.job_id for job in alive if job.cluster == "slurm")
    stop(folder, [job for job in alive if job.cluster != "slurm"])
    print(f"{len(alive)} job{'' if len(alive) == 1 else 's'} cancelled")
    return 0


def _figure(arguments: list[str]) -> int:
    return figure(arguments, program="python -m sweeps")


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "status": status,
    "cancel": _cancel,
    "collect": collect_command,
    "figure": _figure,
}
