"""`icl train`: train a model into a run folder."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, TYPE_CHECKING

import tyro

from opto.hints import did_you_mean

from ..config import from_json, to_json, with_fields
from ..devices import cores, divide_cpu
from ..experiments import Experiment, lengthen, load, run_experiment
from ..experiments.training_log import write_training_log
from ..plugins import made_with
from ..presets import presets
from ..runs import (
    is_finished,
    Log,
    open_run,
    read_object,
    resume_points,
    Run,
    was_begun,
)
from ..training import Stopped
from ..training.loggers import Logger, open_logger
from .options import CommandOptions, parse


if TYPE_CHECKING:
    from ..compat.function_yaml import PublishedRun


_USAGE = """usage: icl train PRESET --out DIR [--resume] [options]

PRESET is one of {};
or a run folder or its config.json, to repeat a run;
or --yaml FILE, a config of Garg et al. (2022) or limits_of_icl.
icl train PRESET --help lists every option of its config.

example: icl train induction --out runs/wide --model.d-model 128"""


@dataclasses.dataclass(frozen=True)
class TrainOptions(CommandOptions):
    """The options besides the fields of the experiment."""

    out: Path
    """The run folder. It must not hold a run, except with --resume."""
    resume: bool = False
    """Continue the run in the folder. The result is the same to the last bit."""
    lengthen: bool = False
    """PRESET is the folder of a run: begin where it ended, and train to a larger
    training.num_sequences. The result is as if all of it had been trained at once. The
    run itself stays as it is. If this is killed, give --resume, too."""
    edit: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An edit during the whole training besides those of the config, such as
    "Zero('blocks.1.attn.z', head=3)"; may be repeated."""
    logger: str = ""
    """Also log to tensorboard, wandb or wandb:PROJECT."""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A field of the config and its value as JSON; may be repeated. It is set after the
    options. It reaches what has no option of its own, such as another kind of
    optimizer: 'optimizer={"type": "AdamW", "weight_decay": 0.1}'."""


@dataclasses.dataclass(frozen=True)
class _WithoutEdits(Experiment):
    """An experiment whose `edits` are no option: `--edit` adds to them."""

    edits: Annotated[tuple[str, ...], tyro.conf.Fixed, tyro.conf.Suppress] = ()


def train(arguments: list[str]) -> None:
    """Runs the command."""
    divide_cpu(cores())
    known = presets()
    published = _published(arguments)
    if published is None and (not arguments or arguments[0].startswith("-")):
        if not {"-h", "--help"} & set(arguments):
            raise ValueError(f"train needs a preset first: {', '.join(known)}")
        print(_USAGE.format(", ".join(known)))
        return
    if published is None:
        preset, *rest = arguments
        base, out = _base(preset, known), None
    else:
        preset, rest = " ".join(arguments[:2]), arguments[2:]
        base, out = published.experiment, published.out
    options = parse(_options_from(preset, base, out), rest, f"train {preset}")
    experiment = with_fields(_edited(options), options.set)
    if options.resume and _is_done(options.out, experiment):
        # Refuses another config, and a run that somebody writes to.
        with open_run(options.out, experiment.pinned(), resume=True) as run:
            done = _last_line(run.log, experiment)
        # A kill may have come before these files.
        _write_stages(options.out, experiment, published)
        print(f"{options.out}: was already trained for {done}")
        return
    if options.lengthen and not (options.resume and was_begun(options.out)):
        lengthen(preset, experiment, options.out)
    logger = _logger(options, experiment)
    try:
        result = run_experiment(
            experiment,
            options.out,
            resume=options.resume or options.lengthen,
            logger=logger,
        )
    except Stopped:  # The run has its log so far.
        _write_stages(options.out, experiment, published)
        raise
    _write_stages(options.out, experiment, published)
    print(f"{options.out}: trained for {_last_line(result.log, experiment)}")


def _published(arguments: list[str]) -> "PublishedRun | None":
    """What the file of `--yaml FILE` says, if this comes first."""
    if not arguments or arguments[0].partition("=")[0] != "--yaml":
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
        return known[preset]()
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
    without = _WithoutEdits(**_fields(base))

    @dataclasses.dataclass(frozen=True)
    class PresetOptions(TrainOptions):
        """Train a model into a run folder."""

        EXAMPLE: ClassVar[str] = f"icl train {name} --out runs/mine"

        experiment: Annotated[_WithoutEdits, tyro.conf.arg(name="")] = without

    if folder is None:
        return PresetOptions

    @dataclasses.dataclass(frozen=True)
    class WithFolder(PresetOptions):
        out: Path = folder

    WithFolder.__doc__ = PresetOptions.__doc__
    return WithFolder


def _edited(options: Any) -> Experiment:
    """The experiment of the options, with their edits after its own."""
    fields = _fields(options.experiment)
    fields["edits"] += options.edit
    return Experiment(**fields)


def _fields(experiment: Experiment) -> dict[str, Any]:
    names = (field.name for field in dataclasses.fields(experiment))
    return {name: getattr(experiment, name) for name in names}


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
