"""`icl train`: train a model into a run folder."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, TYPE_CHECKING

import tyro

from opto.hints import did_you_mean

from ..config import from_json, to_json, with_fields
from ..devices import cores, divide_cpu
from ..experiments import Experiment, load, run_experiment
from ..experiments.training_log import write_training_log
from ..plugins import made_with
from ..presets import presets
from ..runs import is_finished, Log, open_run, read_object, resume_points, Run
from ..training import Stopped
from ..training.loggers import Logger, open_logger
from .options import parse
from .options.train import asks_yaml, train_usage, TrainOptions


if TYPE_CHECKING:
    from ..compat.function_yaml import PublishedRun


def train(arguments: list[str]) -> None:
    """Runs the command.

    **Raises:** `ValueError` for an unknown preset, and for a config that cannot be
    built or trained.
    """
    divide_cpu(cores())
    known = presets()
    published = _published(arguments)
    if published is None and (not arguments or arguments[0].startswith("-")):
        if not {"-h", "--help"} & set(arguments):
            raise ValueError(f"train needs a preset first: {', '.join(known)}")
        print(train_usage(known))
        return
    if published is None:
        preset, *rest = arguments
        base, out = _base(preset, known), None
    else:
        preset, rest = " ".join(arguments[:2]), arguments[2:]
        base, out = published.experiment, published.out
    options = parse(_options_from(preset, base, out), rest, f"train {preset}")
    experiment = with_fields(options.experiment, options.set)
    if options.resume and _is_done(options.out, experiment):
        # Refuses another config, and a run that somebody writes to.
        with open_run(options.out, experiment.pinned(), resume=True) as run:
            done = _last_line(run.log, experiment)
        # A kill may have come before these files.
        _write_stages(options.out, experiment, published)
        print(f"{options.out}: was already trained for {done}")
        return
    logger = _logger(options, experiment)
    try:
        result = run_experiment(
            experiment, options.out, resume=options.resume, logger=logger
        )
    except Stopped:  # The run has its log so far.
        _write_stages(options.out, experiment, published)
        raise
    _write_stages(options.out, experiment, published)
    print(f"{options.out}: trained for {_last_line(result.log, experiment)}")


def _published(arguments: list[str]) -> "PublishedRun | None":
    """What the file of `--yaml FILE` says, if this comes first."""
    if not asks_yaml(arguments):
        return None
    if len(arguments) < 2 or "=" in arguments[0]:
        raise ValueError("--yaml needs a file after it: icl train --yaml FILE")
    # Slow to import, as it knows the models of other codebases.
    from ..compat.function_yaml import read_yaml

    return read_yaml(arguments[1])


def _is_done(out: Path, experiment: Experiment) -> bool:
    """Whether nothing is left to train.

    A run that was killed at its very end has its last checkpoint, but not its last rows
    and resume point. An imported run has no resume points.
    """
    last = max(resume_points(out), default=experiment.training.seen_sequences)
    return is_finished(out) and last >= experiment.training.seen_sequences


def _write_stages(
    out: Path, experiment: Experiment, published: "PublishedRun | None"
) -> None:
    """Writes the loss by stage of the curriculum, and for a YAML config its figure.

    Does nothing for tasks without stages.
    """
    if not hasattr(experiment.task, "stage"):
        return
    trained = load(out)
    write_training_log(trained)
    # A run that was stopped at once has no steps to draw.
    if published is not None and len(trained.run.log.train.get("loss", ())):
        # Slow to import, as they draw.
        from ..report import figures
        from ..report.subject import Subject

        figure = figures.training(Subject(trained, ""))
        # JPEG, whose name and format are those of limits_of_icl.
        figure.savefig(out / f"{published.attention_type}_loss.jpg", dpi=200)


def _base(preset: str, known: Mapping[str, Callable[[], Any]]) -> Experiment:
    """The experiment of a preset's name, of a run's folder, or of a config's file."""
    # A folder does not hide a preset of its name.
    if preset in known:
        base = known[preset]()
        if not isinstance(base, Experiment):
            kind = type(base).__name__
            raise ValueError(f"the preset {preset} gives an Experiment, got {kind}")
        return base
    if (Path(preset) / "config.json").is_file():
        return _stored(Path(preset) / "config.json")
    if preset.endswith(".json"):
        return _stored(Path(preset))
    hint = did_you_mean(preset, known, cutoff=0.4) or f"; known: {', '.join(known)}"
    raise ValueError(f"no preset {preset!r}{hint}")


def _stored(path: Path) -> Experiment:
    """The experiment in a config.json, of a run or by itself."""
    data = read_object(path)
    plugins = Run(path.parent).plugins if path.name == "config.json" else ()
    with made_with(plugins):
        return from_json(Experiment, data)


def _options_from(name: str, base: Experiment, folder: Path | None) -> type:
    """The options of `icl train NAME`; the preset gives their defaults.

    **Arguments:** `folder`: The default of `out`; `None` if it must be given.
    """

    @dataclasses.dataclass(frozen=True)
    class PresetOptions(TrainOptions):
        """Train a model into a run folder."""

        EXAMPLE: ClassVar[str] = f"icl train {name} --out runs/mine"

        experiment: Annotated[Experiment, tyro.conf.arg(name="")] = base

    if folder is None:
        return PresetOptions

    @dataclasses.dataclass(frozen=True)
    class WithFolder(PresetOptions):
        out: Path = folder

    WithFolder.__doc__ = PresetOptions.__doc__
    return WithFolder


def _logger(options: TrainOptions, experiment: Experiment) -> Logger | None:
    """The logger that the options name, if any."""
    if not options.logger:
        return None
    return open_logger(
        options.logger,
        name=options.out.name,
        folder=options.out / "logger",
        config=to_json(experiment),
    )


def _last_line(log: Log, experiment: Experiment) -> str:
    steps = len(log.train["loss"])
    seen = steps * experiment.training.batch_size
    return f"{seen:,} sequences; loss of the last batch {log.train['loss'][-1]:.4f}"
