"""`icl report`: one page about a run; and the subject that `icl plot` draws, too."""

import dataclasses
import math
from pathlib import Path
from typing import ClassVar, TYPE_CHECKING

from .options import MarkedOptions, parse, SubjectOptions


if TYPE_CHECKING:
    from ..report.subject import Subject


@dataclasses.dataclass(frozen=True)
class ReportOptions(MarkedOptions):
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
    from ..files import check_page
    from ..report.page import MARK, write_report

    subject = marked_subject(options)
    out = options.out or options.run / "report.html"
    check_page("out", out, MARK)
    print(write_report(subject, out))


def subject_of(options: SubjectOptions) -> "Subject":
    """The run, set and edits that the options name.

    **Raises:** `ValueError` for a run or a set that does not exist, and for an edit
    that does not fit.
    """
    from ..experiments import load
    from ..experiments.sets import check_set
    from ..report.subject import Subject
    from .probe import edits_in_force

    trained = load(options.run)
    edits = None if options.as_trained else edits_in_force(options, trained)
    data = check_set(trained, options.on)
    return Subject(trained, data, edits)


def marked_subject(options: MarkedOptions) -> "Subject":
    """The same, with the loss that marks the phase change.

    **Raises:** `ValueError` as `subject_of`, and for a threshold that is no loss.
    """
    level = options.threshold
    if level is not None and not (math.isfinite(level) and level > 0):
        raise ValueError(f"--threshold must be a loss above 0, got {level}")
    return dataclasses.replace(subject_of(options), threshold=level)
