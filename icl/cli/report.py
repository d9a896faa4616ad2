"""`icl report`: one page about a run; and the subject that `icl plot` draws, too."""

import dataclasses
import math
from pathlib import Path
from typing import ClassVar, TYPE_CHECKING

from .options import parse, SubjectOptions


if TYPE_CHECKING:
    from ..report.subject import Subject


@dataclasses.dataclass(frozen=True)
class ReportOptions(SubjectOptions):
    """Write an HTML page about a run. It needs no network and no other file.

    It shows the config, learning curves, heads over training, and attention patterns at
    checkpoints.
    """

    EXAMPLE: ClassVar[str] = "icl report runs/demo"

    out: Path | None = None
    """The file; the default is report.html in the run's folder."""


def report(arguments: list[str]) -> None:
    """Runs the command."""
    options = parse(ReportOptions, arguments, "report")
    from ..report.page import check_page, write_report

    subject = subject_of(options)
    out = options.out or options.run / "report.html"
    check_page(out)
    print(write_report(subject, out))


def subject_of(options: SubjectOptions) -> "Subject":
    """The run, set and edits that the options name.

    **Raises:** `ValueError` for a run or a set that does not exist, and for an edit or
    a threshold that does not fit.
    """
    from ..experiments import load
    from ..experiments.sets import check_set
    from ..report.subject import Subject
    from .probe import edits_in_force

    level = options.threshold
    if level is not None and not (math.isfinite(level) and level > 0):
        raise ValueError(f"--threshold must be a loss above 0, got {level}")
    trained = load(options.run)
    edits = None if options.as_trained else edits_in_force(options, trained)
    data = check_set(trained, options.on)
    return Subject(trained, data, edits, threshold=level)
