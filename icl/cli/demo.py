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
    data: str = ""
    """An HDF5 file of classes, such as `icl data omniglot` writes: FILE.h5 or
    FILE.h5:DATASET. The default is synthetic classes, drawn from a seed."""
    sequences: int = 1_000_000
    """How many sequences to train on. No head forms in fewer than 200,000."""


def demo(arguments: list[str]) -> None:
    """Runs the command."""
    options = parse(DemoOptions, arguments, "demo")
    from ..data import classes_in, LowRankClasses
    from ..devices import cores, divide_cpu
    from ..report.demo import demo as run_demo, report

    divide_cpu(cores())
    source = classes_in(options.data) if options.data else LowRankClasses()
    findings = run_demo(source, options.out, num_sequences=options.sequences)
    print(report(findings, options.out))
