"""`icl report`: one page about a run."""

from ..report.page import check_page, write_report
from .options import parse
from .options.report import ReportOptions
from .subject import subject_of


def report(arguments: list[str]) -> None:
    """Runs the command.

    **Raises:** `ValueError` for a subject that does not exist, or a file in the way.
    """
    options = parse(ReportOptions, arguments, "report")
    subject = subject_of(options)
    out = options.out or options.run / "report.html"
    check_page(out)
    print(write_report(subject, out))
