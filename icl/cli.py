"""The command line: `icl demo | train | eval | sites | data`.

Bad input ends with status 2 and one line on stderr; `--help` after any command tells
its options.
"""

import dataclasses
import difflib
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import tyro

from ._options import parse


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command; ends the process with its status."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        status = _dispatch(arguments)
    except ValueError as error:
        status = _fail(str(error))
    except FloatingPointError as error:  # The input was fine, the training was not.
        _fail(str(error))
        status = 1
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        _fail(str(error) or "out of memory")  # A model too large, as a rule.
        status = 1
    except KeyboardInterrupt as error:
        _fail(str(error) or "interrupted")
        status = 130
    except BrokenPipeError:  # `icl sites RUN | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except OSError as error:
        status = _fail(f"{error.filename or 'file'}: {error.strerror or error}")
    sys.exit(status)


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0 if arguments else 2
    name, *rest = arguments
    if name not in _COMMANDS:
        close = difflib.get_close_matches(name, _COMMANDS, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}?" if close else ", ".join(_COMMANDS)
        raise ValueError(f"no command {name!r}; {hint}")
    _COMMANDS[name][0](rest)
    return 0


def _usage() -> str:
    rows = [f"  icl {name:6} {text}" for name, (_, text) in _COMMANDS.items()]
    return "\n".join(
        [
            "usage: icl COMMAND [options]",
            "",
            *rows,
            "",
            "icl COMMAND --help tells more.",
        ]
    )


def _fail(message: str) -> int:
    print(f"icl: {' '.join(message.split())}", file=sys.stderr)
    return 2


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
    from .data import HDF5Classes, LowRankClasses
    from .demo import demo, report

    if options.path and options.data is None:
        raise ValueError("--path names a data set in a file: give the file with --data")
    if options.data is None:
        source = LowRankClasses()
    else:
        source = HDF5Classes(str(options.data), options.path)
    print(report(demo(source, options.out), options.out))


def _train(arguments: list[str]) -> None:
    from . import studies
    from .config import from_json, with_fields
    from .experiment import Experiment, run_experiment

    presets = {name: getattr(studies, name) for name in studies.__all__}
    if not arguments or arguments[0].startswith("-"):
        wants_help = bool({"-h", "--help"} & set(arguments))
        text = (
            "usage: icl train PRESET --out DIR [--resume] [options]\n\nPRESET is "
            f"{' | '.join(presets)}, or a run or its config.json, to repeat it.\n"
            "icl train PRESET --help lists every option of its config."
        )
        if not wants_help:
            raise ValueError(f"train needs a preset first: {', '.join(presets)}")
        print(text)
        return
    preset, *rest = arguments
    if preset not in presets and (Path(preset) / "config.json").is_file():
        preset = str(Path(preset) / "config.json")
    if preset.endswith(".json"):
        base = from_json(Experiment, _read_json(Path(preset)))
    elif preset in presets:
        base = presets[preset]()
    else:
        close = difflib.get_close_matches(preset, presets, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}?" if close else f"there is {[*presets]}"
        raise ValueError(f"no preset {preset!r}; {hint}")

    @dataclasses.dataclass(frozen=True)
    class TrainOptions:
        """Train one model into a run folder."""

        out: Path
        """The run folder; refused if it holds a run, unless --resume is given."""
        resume: bool = False
        """Continue the run that is there, to the same bits."""
        set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
        """A field of the config and its value as JSON, applied after the options; may
        be repeated. For what has no option of its own, another kind of optimizer, say:
        'optimizer={"type": "AdamW", "weight_decay": 0.1}'."""
        experiment: Annotated[Experiment, tyro.conf.arg(name="")] = base

    options = parse(TrainOptions, rest, f"train {preset}")
    experiment = with_fields(options.experiment, options.set)
    result = run_experiment(experiment, options.out, resume=options.resume)
    print(f"{options.out}: trained for {_last_line(result.log, experiment)}")


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
    import opto

    from .evaluate import evaluate
    from .experiment import load

    trained = load(options.run, options.checkpoint)
    own = trained.edits if options.training_edits else ()
    edits = (*own, *(opto.parse(text) for text in options.edit))
    table = {
        name: evaluate(trained.model, trained.task, batch, edits=edits)
        for name, batch in trained.evaluations.items()
    }
    if not table:
        raise ValueError(f"{options.run} has no evaluation sets")
    metrics = list(next(iter(table.values())))
    width = max(map(len, metrics))
    print(" ".join([f"{'':{width}}", *(f"{name:>18}" for name in table)]))
    for metric in metrics:
        values = (f"{float(rows[metric].mean()):18.4f}" for rows in table.values())
        print(" ".join([f"{metric:{width}}", *values]))


@dataclasses.dataclass(frozen=True)
class SitesOptions:
    """List what can be recorded and edited in a run's model."""

    run: tyro.conf.Positional[Path]
    """A run folder."""


def _sites(arguments: list[str]) -> None:
    options = parse(SitesOptions, arguments, "sites")
    import opto

    from .experiment import example_inputs, load

    trained = load(options.run)
    print(opto.sites(trained.model, *example_inputs(trained.task)))


@dataclasses.dataclass(frozen=True)
class OmniglotOptions:
    """Turn Omniglot's published zips into one HDF5 file of classes."""

    zips: tyro.conf.Positional[tuple[Path, ...]]
    """The published zips, or folders of the same layout; duplicates are dropped."""
    out: Path
    """The file to write; an existing one is refused."""
    size: int = 28
    """Pixels on a side, at most 105."""
    scale: float = 3.0
    """Multiplies the pixels, which are in [0, 1] with ink 1."""
    whiten: int | None = None
    """Keep so many principal components, each scaled to unit variance."""
    encoder: Literal["pixels", "conv"] = "pixels"
    """What a drawing becomes: its pixels (or, with --whiten, their components), or the
    features of a small convolutional network, trained first, which takes a minute. The
    92 characters that train it are left out of the file."""


def _data(arguments: list[str]) -> None:
    from . import data

    synthetic = {
        "low-rank": data.LowRankClasses,
        "gaussian": data.GaussianClasses,
    }
    names = ("omniglot", *synthetic)
    if not arguments or arguments[0] not in names:
        text = f"usage: icl data {{{','.join(names)}}} --out FILE.h5 [options]"
        if set(arguments) & {"-h", "--help"}:
            print(text)
            return
        given = arguments[0] if arguments else ""
        got = repr(given) if given else "nothing"
        close = difflib.get_close_matches(given, names, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
        raise ValueError(f"data needs the name of a source first, got {got}; {hint}")
    name, *rest = arguments
    if name == "omniglot":
        options = parse(OmniglotOptions, rest, "data omniglot")
        shape = data.make_omniglot(
            options.zips,
            options.out,
            size=options.size,
            scale=options.scale,
            whiten=options.whiten,
            encoder=data.ConvEncoder() if options.encoder == "conv" else None,
        )
        print(f"{options.out}: {shape[0]} classes, {shape[1]} exemplars of {shape[2:]}")
        return

    @dataclasses.dataclass(frozen=True)
    class SourceOptions:
        """Write the classes of a synthetic source to an HDF5 file."""

        out: Path
        """The file to write; an existing one is refused."""
        source: Annotated[synthetic[name], tyro.conf.arg(name="")]  # pyright: ignore

    options = parse(SourceOptions, rest, f"data {name}")
    print(f"{options.out}: {data.save_source(options.source, options.out)}")


_COMMANDS: dict[str, tuple[Callable[[list[str]], None], str]] = {
    "demo": (_demo, "train until induction heads form, and see them"),
    "train": (_train, "train a preset, or a config.json, into a run folder"),
    "eval": (_eval, "metrics of a run on its evaluation sets, under edits if wanted"),
    "sites": (_sites, "what can be recorded and edited in a run's model"),
    "data": (_data, "make a file of classes"),
}


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:  # Neither text nor JSON.
        raise ValueError(f"{path} is not JSON: {error}") from None
