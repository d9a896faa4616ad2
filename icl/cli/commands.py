"""The command line: `icl demo | train | eval | ablate | patch | sites | …`.

Bad input ends with status 2 and one line on stderr; `--help` after any command tells
its options.
"""

import dataclasses
import difflib
import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import tyro

from ..plugins import import_from, made_with
from .data import data
from .imports import _import
from .options import parse


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command; ends the process with its status."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    sys.exit(guarded("icl", lambda: _dispatch(import_from(arguments))))


def guarded(program: str, command: Callable[[], int]) -> int:
    """A command's status, and its errors in one line on stderr.

    Bad input is 2, a computation that failed 1, an interrupt 130.
    """

    def fail(message: str, status: int) -> int:
        print(f"{program}: {' '.join(message.split())}", file=sys.stderr)
        return status

    try:
        return command()
    except ValueError as error:
        return fail(str(error), 2)
    except FloatingPointError as error:  # The input was fine, the training was not.
        return fail(str(error), 1)
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        return fail(str(error) or "out of memory", 1)  # A model too large, as a rule.
    except KeyboardInterrupt as error:
        return fail(str(error) or "interrupted", 130)
    except BrokenPipeError:  # `icl sites RUN | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return fail(f"{error.filename or 'file'}: {error.strerror or error}", 2)


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0 if arguments else 2
    name, *rest = arguments
    if name not in _COMMANDS:
        close = difflib.get_close_matches(name, _COMMANDS, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}?" if close else ", ".join(_COMMANDS)
        raise ValueError(f"no command {name!r}; {hint}")
    return _COMMANDS[name][0](rest) or 0


def _usage() -> str:
    rows = [f"  icl {name:6} {text}" for name, (_, text) in _COMMANDS.items()]
    return "\n".join(
        [
            "usage: icl COMMAND [options]",
            "",
            *rows,
            "",
            "icl COMMAND --help tells more. --import MODULE, with any command, makes",
            "known what a module or a file.py of yours defines: tasks, models, edits,",
            "measures, presets. It may be repeated.",
        ]
    )


@dataclasses.dataclass(frozen=True)
class DemoOptions:
    """Train the induction-head paper's main model and draw what formed in it.

    About a minute of training on two cores. A run that is there is continued, and one
    that is finished only drawn again.
    """

    out: Path = Path("runs/demo")
    """Where the run folder and the figures go."""
    data: Path | None = None
    """An HDF5 file of classes, such as `icl data omniglot` writes; the default is
    synthetic classes drawn from a seed."""
    path: str = ""
    """The data set in that file, when it holds several."""


def _demo(arguments: list[str]) -> None:
    options = parse(DemoOptions, arguments, "demo")
    from ..data import HDF5Classes, LowRankClasses
    from ..report.demo import demo, report

    if options.path and options.data is None:
        raise ValueError("--path names a data set in a file: give the file with --data")
    if options.data is None:
        source = LowRankClasses()
    else:
        source = HDF5Classes(str(options.data), options.path)
    print(report(demo(source, options.out), options.out))


def _train(arguments: list[str]) -> None:
    from ..config import to_json, with_fields
    from ..experiments import Experiment, run_experiment
    from ..presets import presets
    from ..training.loggers import open_logger

    known = presets()
    if not arguments or arguments[0].startswith("-"):
        wants_help = bool({"-h", "--help"} & set(arguments))
        text = (
            "usage: icl train PRESET --out DIR [--resume] [options]\n\nPRESET is "
            f"{' | '.join(known)}, or a run or its config.json, to repeat it.\n"
            "icl train PRESET --help lists every option of its config."
        )
        if not wants_help:
            raise ValueError(f"train needs a preset first: {', '.join(known)}")
        print(text)
        return
    preset, *rest = arguments
    if preset not in known and (Path(preset) / "config.json").is_file():
        preset = str(Path(preset) / "config.json")
    if preset.endswith(".json"):
        base = _stored(Path(preset))
    elif preset in known:
        base = known[preset]()
        if not isinstance(base, Experiment):
            kind = type(base).__name__
            raise ValueError(f"the preset {preset} gives an Experiment, got {kind}")
    else:
        close = difflib.get_close_matches(preset, known, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}?" if close else f"there is {[*known]}"
        raise ValueError(f"no preset {preset!r}; {hint}")

    @dataclasses.dataclass(frozen=True)
    class TrainOptions:
        """Train one model into a run folder."""

        out: Path
        """The run folder; refused if it holds a run, unless --resume is given."""
        resume: bool = False
        """Continue the run that is there, to the same bits."""
        logger: str = ""
        """Where else numbers go: tensorboard, wandb or wandb:PROJECT."""
        set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
        """A field of the config and its value as JSON, applied after the options; may
        be repeated. For what has no option of its own, another kind of optimizer, say:
        'optimizer={"type": "AdamW", "weight_decay": 0.1}'."""
        experiment: Annotated[Experiment, tyro.conf.arg(name="")] = base

    options = parse(TrainOptions, rest, f"train {preset}")
    experiment = with_fields(options.experiment, options.set)
    logger = None
    if options.logger:
        folder, config = options.out / "logger", to_json(experiment)
        logger = open_logger(
            options.logger, name=options.out.name, folder=folder, config=config
        )
    result = run_experiment(
        experiment, options.out, resume=options.resume, logger=logger
    )
    print(f"{options.out}: trained for {_last_line(result.log, experiment)}")


def _stored(path: Path) -> Any:
    """The experiment in a config.json, of a run or by itself."""
    from ..config import from_json
    from ..experiments import Experiment
    from ..runs import Run

    data = _read_json(path)
    plugins = Run(path.parent).plugins if path.name == "config.json" else ()
    with made_with(plugins):
        return from_json(Experiment, data)


def _last_line(log: Any, experiment: Any) -> str:
    steps = len(log.train["loss"])
    seen = steps * experiment.training.batch_size
    return f"{seen:,} sequences; loss of the last batch {log.train['loss'][-1]:.4f}"


@dataclasses.dataclass(frozen=True)
class EvalOptions:
    """Print the metrics of a run's model on its evaluation sets."""

    run: tyro.conf.Positional[Path]
    """A run folder."""
    checkpoint: int = -1
    """Sequences seen at the checkpoint; -1 is the last."""
    edit: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An edit in force, besides those of training, such as
    "Zero('blocks.1.attn.z', head=3)"; may be repeated."""
    training_edits: bool = True
    """Whether the edits that the run was trained under are in force too."""


def _eval(arguments: list[str]) -> None:
    options = parse(EvalOptions, arguments, "eval")
    from ..edits.grafts import read_edits
    from ..experiments import evaluate, load
    from ..summaries import scalars, summaries_of, summarise

    trained = load(options.run, options.checkpoint)
    own = trained.edits if options.training_edits else ()
    edits = (*own, *read_edits(options.edit))
    summaries = summaries_of(trained.task)
    table = {}
    for name, batch in trained.evaluations.items():
        rows = evaluate(trained.model, trained.task, batch, edits=edits)
        table[name] = scalars(summarise(jax.device_get(rows), summaries))
    if not table:
        raise ValueError(f"{options.run} has no evaluation sets")
    metrics = list(next(iter(table.values())))
    width = max(map(len, metrics))
    print(" ".join([f"{'':{width}}", *(f"{name:>18}" for name in table)]))
    for metric in metrics:
        values = (f"{float(numbers[metric]):18.4f}" for numbers in table.values())
        print(" ".join([f"{metric:{width}}", *values]))


@dataclasses.dataclass(frozen=True)
class SitesOptions:
    """List what can be recorded and edited in a run's model."""

    run: tyro.conf.Positional[Path]
    """A run folder."""


def _sites(arguments: list[str]) -> None:
    options = parse(SitesOptions, arguments, "sites")
    import opto

    from ..experiments import load

    trained = load(options.run)
    table = opto.sites(trained.model, *trained.task.interface.structs)
    rows = [(name, str(s.dtype), s.dims.strip("[]")) for name, s in table.items()]
    rows = [("site", "dtype", "axes"), *rows]
    names, dtypes = (max(len(row[k]) for row in rows) for k in range(2))
    for name, dtype, axes in rows:
        print(f"{name:{names}}  {dtype:{dtypes}}  {axes}".rstrip())


_Command = Callable[[list[str]], int | None]
"""Of the arguments after its name; an exit status, if that is not 0."""


def _from(module: str, name: str) -> _Command:
    """A command of another module, imported when it is called: that takes a second."""

    def command(arguments: list[str]) -> int | None:
        return getattr(importlib.import_module(f".{module}", __package__), name)(
            arguments
        )

    return command


_COMMANDS: dict[str, tuple[_Command, str]] = {
    "demo": (_demo, "train until induction heads form, and see them"),
    "train": (_train, "train a preset, or a config.json, into a run folder"),
    "eval": (_eval, "metrics of a run on its evaluation sets, under edits if wanted"),
    "ablate": (
        _from("edits", "ablate"),
        "a run without each of its heads",
    ),
    "patch": (_from("edits", "patch"), "which activations carry a run's answers"),
    "replay": (
        _from("replay", "replay"),
        "measures over a run's checkpoints",
    ),
    "plot": (_from("plot", "plot"), "figures of a run, by kind"),
    "report": (_from("plot", "report"), "one page about a run, for a browser"),
    "figure": (_from("figure", "figure"), "a figure of a paper from nothing"),
    "sites": (_sites, "what can be recorded and edited in a run's model"),
    "import": (_import, "a run of icl-dynamics as one of ours"),
    "data": (data, "make a file of classes"),
}


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:  # Neither text nor JSON.
        raise ValueError(f"{path} is not JSON: {error}") from None
