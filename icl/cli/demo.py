"""`icl demo`: from nothing to induction heads."""

import dataclasses
from pathlib import Path

from ..data import HDF5Classes, LowRankClasses
from ..report.demo import demo as run_demo, report
from .options import parse


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


def demo(arguments: list[str]) -> None:
    """Runs the command.

    **Raises:** `ValueError` for a data set without its file, and as the demo does.
    """
    options = parse(DemoOptions, arguments, "demo")
    if options.path and options.data is None:
        raise ValueError("--path names a data set in a file: give the file with --data")
    if options.data is None:
        source = LowRankClasses()
    else:
        source = HDF5Classes(str(options.data), options.path)
    print(report(run_demo(source, options.out), options.out))
