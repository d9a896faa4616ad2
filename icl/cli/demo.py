"""`icl demo`: from nothing to induction heads."""

import dataclasses
from pathlib import Path
from typing import ClassVar

from .options import CommandOptions, parse


@dataclasses.dataclass(frozen=True)
class DemoOptions(CommandOptions):
    """Train the main model of the induction-head paper and draw its circuits.

    Training takes about a minute on two cores. If the folder holds a run, the command
    continues it; if the run is finished, the command only draws it again.
    """

    EXAMPLE: ClassVar[str] = "icl demo --out runs/demo"

    out: Path = Path("runs/demo")
    """The run folder; the figures go there, too."""
    data: Path | None = None
    """An HDF5 file of classes, such as `icl data omniglot` writes. The default is
    synthetic classes, drawn from a seed."""
    path: str = ""
    """The name of the data set in that file, if it holds several."""
    sequences: int = 1_000_000
    """How many sequences to train on. No head forms in fewer than 200,000."""


def demo(arguments: list[str]) -> None:
    """Runs the command."""
    options = parse(DemoOptions, arguments, "demo")
    if options.path and options.data is None:
        raise ValueError("--path names a data set in a file: give the file with --data")
    from ..data import HDF5Classes, LowRankClasses
    from ..devices import cores, divide_cpu
    from ..report.demo import demo as run_demo, report

    divide_cpu(cores())
    if options.data is None:
        source = LowRankClasses()
    else:
        source = HDF5Classes(str(options.data), options.path)
    findings = run_demo(source, options.out, num_sequences=options.sequences)
    print(report(findings, options.out))
