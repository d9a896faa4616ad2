"""`icl report`: one page about a run."""

import dataclasses
from pathlib import Path

from ..report.page import check_page, write_report
from .options import parse
from .subject import SubjectOptions


@dataclasses.dataclass(frozen=True)
class ReportOptions(SubjectOptions):
    """Write one HTML page about a run, which needs no network and no other file.

    Its config, learning curves, heads over training, and attention patterns at each of
    its checkpoints.
    """

    out: Path | None = None
    """The file; the default is report.html in the run's folder."""


def report(arguments: list[str]) -> None:
    """Runs the command.

    **Raises:** `ValueError` for a subject that cannot be, or a file in the way.
    """
    options = parse(ReportOptions, arguments, "report")
    subject = options.subject()
    out = options.out or options.run / "report.html"
    check_page(out)
    print(write_report(subject, out))
