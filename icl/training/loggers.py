"""Where numbers go during training, besides the log: TensorBoard, W&B, or your own.

A logger is any object with the methods of `Logger`. `open_logger` makes the loggers
that `--logger` names:

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
    """Gets the numbers of one run while it trains."""

    def log(self, sequences: int, metrics: Mapping[str, float]) -> None:
        """Takes numbers by name, such as `train/loss` and `eval/held/accuracy`.

        The names are those in `log.h5`. `train/…` are means since the last call and
        come about twice a second; `eval/…` are the summaries of an evaluation set. A
        resumed run starts at its resume point, so the same number may come twice.

        **Arguments:**

        - `sequences`: Sequences seen so far.
        """
        ...

    def close(self) -> None:
        """Called once, however training ends."""
        ...


class Several:
    """Passes everything on to several loggers."""

    def __init__(self, loggers: Sequence[Logger]):
        self._loggers = loggers

    def log(self, sequences: int, metrics: Mapping[str, float]) -> None:
        for logger in self._loggers:
            logger.log(sequences, metrics)

    def close(self) -> None:
        """Closes all loggers, even if one of them raises."""
        with contextlib.ExitStack() as stack:
            for logger in reversed(self._loggers):
                stack.callback(logger.close)


def check_logger(text: str) -> None:
    """Checks the text for `open_logger` without importing anything.

    **Raises:** `ValueError`, in one line, for an unknown logger or one whose package is
    not installed.
    """
    name = text.partition(":")[0]
    if name not in _PACKAGES:
        hint = did_you_mean(name, _PACKAGES, cutoff=0.4) or f"; choose {_FORMS}"
        raise ValueError(f"no logger {text!r}{hint}")
    if ":" in text and name != "wandb":
        raise ValueError(f"the logger {name} takes no project, got {text!r}")
    spec = importlib.util.find_spec(_PACKAGES[name])
    # These packages write folders of their name, which look like a spec with no origin.
    if spec is None or spec.origin is None:
        raise ValueError(
            f"the logger {name} needs {_PACKAGES[name]}, which is not installed: "
            f"make EXTRA={name}, or pip install -e '.[{name}]'"
        )


_PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb"}
_FORMS = "tensorboard, wandb or wandb:PROJECT"


def open_logger(
    text: str, *, name: str, folder: Path, config: Mapping[str, Any]
) -> Logger:
    """The logger that `--logger` names.

    It writes nothing before the first number comes. So a refused run leaves no trace,
    and `folder` may be inside a run folder that does not exist yet. Later, a failing
    logger never ends the training: it warns once and stops logging.

    **Arguments:**

    - `text`: `tensorboard`, `wandb` or `wandb:PROJECT`. The default project is the
        value of WANDB_PROJECT, or `icl-opto`.
    - `name`: The run's name in W&B; TensorBoard shows `folder`.
    - `folder`: The folder for this run's files (event files or W&B's own); no other run
        may share it. A resumed run continues the files there.
    - `config`: The run's config, as JSON data.

    **Raises:** `ValueError`, in one line, as in `check_logger`, and if the package does
    not import. The first `log` also raises it if the logger cannot be set up, for
    example if nobody is logged in to W&B.
    """
    check_logger(text)
    kind, _, project = text.partition(":")
    folder = Path(folder).absolute()
    try:
        # Import only now: these are extras, and take a second.
        if kind == "tensorboard":
            made = importlib.import_module("._tensorboard", __package__)
            start = lambda: made.TensorBoard(folder, config)
        else:
            made = importlib.import_module("._wandb", __package__)
            start = lambda: made.WandB(project, name, folder, config)
    except Exception as error:
        got = f"the logger {kind} cannot be imported: {_line(error)}"
        raise ValueError(got) from error
    return _Harmless(kind, start)


class _Harmless:
    """A logger that is set up at the first number; its failures are warnings."""

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
            f"the logger {self._kind} failed and gets no more numbers; the training "
            f"continues: {_line(error)}",
            stacklevel=3,
        )


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
