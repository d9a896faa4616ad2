"""The command line: `icl demo | train | eval | ablate | patch | sites | …`.

Bad input ends with status 2 and one line on stderr; `--help` after any command tells
its options.
"""

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import Any

from opto.hints import did_you_mean

from ..plugins import import_from


_LESS = (
    " (what takes memory is training.batch_size, which microbatch_size divides, the "
    "size of the model, of the classes and of the evaluation sets)"
)
_HELP = ("-h", "--help")
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "train until induction heads form, and see them"),
    "train": ("train", "train a preset, or a config.json, into a run folder"),
    "eval": ("evaluate", "metrics of a run on its evaluation sets, also under edits"),
    "ablate": ("ablate", "a run without each of its heads"),
    "patch": ("patch", "which activations carry a run's answers"),
    "check": ("check", "whether the files of runs are as they were written"),
    "replay": ("replay", "measures over a run's checkpoints"),
    "plot": ("plot", "figures of a run, by kind"),
    "report": ("report", "one page about a run, for a browser"),
    "llc-scan": ("llc_scan", "settings of the local learning coefficient"),
    "look": ("look", "a run in a browser: edit heads, move through training"),
    "figure": ("figure", "a figure of a paper from nothing"),
    "sites": ("sites", "what can be recorded and edited in a run's model"),
    "import": ("import_run", "a run of icl-dynamics as one of ours"),
    "data": ("data", "make a file of classes"),
}
"""Each command's file, whose function of that name runs it, and what the command does.

The function takes the arguments after the command's name. It returns an exit status, or
`None` for 0.
"""


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
        with _plain_warnings(program):
            return command()
    except ValueError as error:
        return fail(str(error), 2)
    except RecursionError:
        return fail("something that was given is nested too deeply", 2)
    except FloatingPointError as error:  # The input was fine, the training was not.
        return fail(str(error), 1)
    except (AssertionError, RuntimeError, MemoryError) as error:
        if platform := _missing_platform():
            return fail(platform, 2)
        if not isinstance(error, MemoryError) and not _of_jax(error):
            raise
        message = str(error) or "out of memory"
        short = isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in message
        return fail(f"{message}{_LESS if short else ''}", 1)
    except KeyboardInterrupt as error:
        return fail(str(error) or "interrupted", 130)
    except BrokenPipeError:  # `icl sites RUN | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return fail(f"{error.filename or 'file'}: {error.strerror or error}", 2)


def _missing_platform() -> str:
    """Which platform of `JAX_PLATFORMS` JAX does not find; empty if it finds all."""
    jax = sys.modules.get("jax")
    named = os.environ.get("JAX_PLATFORMS")
    if jax is None or not named:
        return ""
    try:
        jax.devices()
    except (AssertionError, RuntimeError):
        return f"JAX_PLATFORMS={named}: JAX finds no such device; unset it, or name cpu"
    return ""


def _of_jax(error: Exception) -> bool:
    """Whether JAX raised the error; it did not if JAX was never imported."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(error, jax.errors.JaxRuntimeError)


@contextlib.contextmanager
def _plain_warnings(program: str) -> Iterator[None]:
    """Prints our own warnings as one line, without the line of code that warns."""
    usual = warnings.formatwarning

    def plain(message: Any, category: type[Warning], *where: Any) -> str:
        if category is not UserWarning:
            return usual(message, category, *where)
        return f"{program}: warning: {' '.join(str(message).split())}\n"

    warnings.formatwarning = plain
    try:
        yield
    finally:
        warnings.formatwarning = usual


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in _HELP:
        print(_usage())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"icl-opto {version('icl-opto')}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS, cutoff=0.4) or f"; {', '.join(COMMANDS)}"
        raise ValueError(f"no command {name!r}{hint}")
    file, _ = COMMANDS[name]
    if not {*_HELP} & {*rest}:
        from ..program_cache import keep_programs  # It imports JAX: slow.

        keep_programs()
    command = getattr(importlib.import_module(f".{file}", __package__), file)
    return command(rest) or 0


def _usage() -> str:
    rows = [f"  icl {name:6} {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: icl COMMAND [options]",
            "",
            *rows,
            "",
            "icl COMMAND --help tells more. --import MODULE, with any command, makes",
            "known what a module or a file.py of yours defines: tasks, models, edits,",
            "measures, presets. It may be repeated.",
            "",
            "example: icl demo",
        ]
    )
