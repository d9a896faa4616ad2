"""Where numbers go while a run trains, besides its log: TensorBoard, W&B, or your own.

A logger is anything with the methods of `Logger`. `open_logger` makes those that
`--logger` names:

    run_experiment(experiment, out, logger=open_logger("tensorboard", ...))
"""

import contextlib
import importlib
import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from opto.hints import did_you_mean


@runtime_checkable
class Logger(Protocol):
    """Is told how one run goes."""

    def log(self, sequences: int, metrics: Mapping[str, float]) -> None:
        """Takes numbers by their names, such as `train/loss` and `eval/held/accuracy`.

        The names are those in `log.h5`. `train/…` are means since the last call and
        come about twice a second; `eval/…` are what an evaluation set comes to. A
        resumed run begins again at its resume point, so the same number may come twice.

        **Arguments:**

        - `sequences`: Seen so far.
        """
        ...

    def close(self) -> None:
        """Is called once, however training ends."""
        ...


class Several:
    """Tells each of several loggers."""

    def __init__(self, loggers: Sequence[Logger]):
        self._loggers = loggers

    def log(self, sequences: int, metrics: Mapping[str, float]) -> None:
        for logger in self._loggers:
            logger.log(sequences, metrics)

    def close(self) -> None:
        """Closes all, also if one of them raises."""
        with contextlib.ExitStack() as stack:
            for logger in reversed(self._loggers):
                stack.callback(logger.close)


def check_logger(text: str) -> None:
    """Checks what `open_logger` is to be given, without importing anything.

    **Raises:** `ValueError`, in one line, for a logger that there is not and for one
    whose package is not installed.
    """
    name, _, project = text.partition(":")
    if name not in _PACKAGES:
        hint = did_you_mean(name, _PACKAGES, cutoff=0.4) or f"; there is {_FORMS}"
        raise ValueError(f"no logger {text!r}{hint}")
    if ":" in text and name != "wandb":
        raise ValueError(f"the logger {name} takes no project, got {text!r}")
    if ":" in text and (not project or len(project) > 128 or set(project) & _FORBIDDEN):
        raise ValueError(
            f"the logger wandb takes a project's name of up to 128 characters without "
            f"any of {' '.join(sorted(_FORBIDDEN))}, as in wandb:PROJECT, got {text!r}"
        )
    spec = importlib.util.find_spec(_PACKAGES[name])
    # A folder of that name, where these packages write, looks like one without origin.
    if spec is None or spec.origin is None:
        raise ValueError(
            f"the logger {name} needs {_PACKAGES[name]}, which is not installed: "
            f"make EXTRA={name}, or pip install -e '.[{name}]'"
        )


_PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb"}
_FORMS = "tensorboard, wandb or wandb:PROJECT"
_FORBIDDEN = set("/\\#?%:")  # W&B's rule.


def open_logger(
    text: str, *, name: str, folder: Path, config: Mapping[str, Any]
) -> Logger:
    """The logger that `--logger` names.

    Nothing is written before the first number comes, so that a run that is refused
    leaves no trace and `folder` may be in a run folder that is yet to be made. From
    then on no failure of the logger ends the training: it warns once and falls silent.

    **Arguments:**

    - `text`: `tensorboard`, `wandb` or `wandb:PROJECT`. By default the project is
        what WANDB_PROJECT says, or `icl-opto`.
    - `name`: The run's, as W&B shows it; TensorBoard shows `folder`.
    - `folder`: Where this run's files go, event files or W&B's own, which no other run
        shares. A run that is resumed continues what is there.
    - `config`: The run's, as JSON data.

    **Raises:** `ValueError`, in one line, as `check_logger` does and if the package
    does not import; and so does the first `log` if the logger cannot be set up, such as
    when nobody is logged in to W&B.
    """
    check_logger(text)
    kind, _, project = text.partition(":")
    folder = Path(folder).absolute()
    try:
        # Only now, and not with this module: they are extras, and take a second.
        if kind == "tensorboard":
            made = importlib.import_module("._tensorboard", __package__)
            start = lambda: made.TensorBoard(folder, config)
        else:
            made = importlib.import_module("._wandb", __package__)
            start = lambda: made.WandB(project, name, folder, config)
    except Exception as error:
        got = f"the logger {kind} does not import: {_line(error)}"
        raise ValueError(got) from error
    return _Harmless(kind, start)


class _Harmless:
    """A logger that is set up at the first number and whose failures are warnings."""

    def __init__(self, kind: str, start: Callable[[], Logger]):
        self._kind, self._start = kind, start
        self._logger: Logger | None = None
        self._silent = False

    def log(self, sequences: int, metrics: Mapping[str, float]) -> None:
        if self._silent:
            return
        if self._logger is None:
            self._logger = self._started()
        try:
            self._logger.log(sequences, metrics)
        except Exception as error:
            self._fail(error)

    def close(self) -> None:
        logger, self._logger = self._logger, None
        failed, self._silent = self._silent, True
        try:
            if logger is not None:
                logger.close()
        except Exception as error:
            if not failed:
                self._fail(error)

    def _started(self) -> Logger:
        try:
            return self._start()
        except Exception as error:
            self._silent = True
            got = f"the logger {self._kind} could not be set up: {_line(error)}"
            raise ValueError(got) from error

    def _fail(self, error: Exception) -> None:
        self._silent = True
        warnings.warn(
            f"the logger {self._kind} failed and is told no more; the training goes "
            f"on: {_line(error)}",
            stacklevel=3,
        )


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
