"""`icl llc-scan`: a grid of settings of the local learning coefficient."""

import dataclasses
from pathlib import Path
from typing import ClassVar

from .options import parse, SubjectOptions
from .report import subject_of
from .results import check_folder


@dataclasses.dataclass(frozen=True)
class LlcScanOptions(SubjectOptions):
    """Draw the local learning coefficient along chains, for a grid of settings.

    Choose a step size and a localization whose chains agree and have become level: see
    the guide "Stages". A panel is one pair of them.
    """

    EXAMPLE: ClassVar[str] = "icl llc-scan runs/demo --step-size 1e-6 1e-5"

    step_size: tuple[float, ...] = (1e-6, 1e-5, 1e-4)
    """The step sizes of SGLD."""
    localization: tuple[float, ...] = (10.0, 100.0)
    """How strongly the weights are held at the checkpoint."""
    steps: int = 300
    """The steps of a chain."""
    chains: int = 4
    """The chains of a pair."""
    checkpoint: int = -1
    """The checkpoint, as the number of sequences seen; -1 is the last."""
    out: Path | None = None
    """The folder for the figure. The default is figures in the run's folder."""


def llc_scan(arguments: list[str]) -> None:
    """Runs the command."""
    options = parse(LlcScanOptions, arguments, "llc-scan")
    from .. import plots
    from ..report.llc_grid import llc_grid

    out = options.out or options.run / "figures"
    check_folder(out)
    subject = dataclasses.replace(subject_of(options), checkpoint=options.checkpoint)
    figure = llc_grid(
        subject,
        options.step_size,
        options.localization,
        steps=options.steps,
        chains=options.chains,
    )
    out.mkdir(parents=True, exist_ok=True)
    print(plots.save(figure, out / "llc-scan.png"))
