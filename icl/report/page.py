"""One HTML page about a run, without other files."""

import base64
import contextlib
import dataclasses
import html
import importlib.resources
import io
import string
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl

from .. import measures, plots
from ..files import write_bytes
from ..plots import DrawnFigure
from .facts import config_parts, final_table, meta_table, subtitle
from .figures import learning
from .grouping import Inapplicable
from .patterns import patterns
from .subject import Subject


MARK = '<meta name="generator" content="icl report">'
"""What the start of a report has."""


def write_report(subject: Subject, path: Path) -> Path:
    """Writes the page about a run, whole or not at all.

    **Raises:** `OSError` if the file cannot be written.
    """
    write_bytes(path, page(subject).encode())
    return path


def page(subject: Subject) -> str:
    """The page: config, learning curves, heads over training, attention patterns."""
    run = subject.trained.run
    template = importlib.resources.files("icl.report").joinpath("page.html")
    return string.Template(template.read_text(encoding="utf-8")).substitute(
        title=html.escape(run.path.resolve().name),
        subtitle=subtitle(subject),
        facts=final_table(subject),
        sections="\n".join(_sections(subject)),
        config=config_parts(run.config),
        meta=meta_table(run),
    )


def _sections(subject: Subject) -> Iterator[str]:
    run = subject.trained.run
    if run.log.evaluations:
        yield "<h2>Learning</h2>"
        logged = learning(dataclasses.replace(subject, edits=None))
        yield _figure(logged, "Means over the sequences of each set, as logged.")
    if subject.data == "":
        yield "<p>It has no evaluation sets to measure its heads on.</p>"
        return
    with contextlib.suppress(Inapplicable):  # For example without token roles.
        heads = [*_heads(subject)]
        yield "<h2>Heads over training</h2>"
        yield from heads
    if subject.patterns:
        yield "<h2>Attention patterns</h2>"
        yield patterns(subject)
    else:
        yield "<p>Its model has no attention patterns to show.</p>"


def _heads(subject: Subject) -> Iterator[str]:
    found = subject.replay(
        {
            "induction": measures.induction_strength(),
            "previous": measures.previous_token_strength(),
        }
    )
    on = f"Means over the sequences of “{html.escape(subject.data)}”."
    texts = {
        "induction": "Induction strength: the query's attention to the labels in "
        "context that are the answer, minus that to the others.",
        "previous": "Previous-token strength: how much each label attends to its "
        "exemplar, the token before it.",
    }
    for name, text in texts.items():
        figure = plots.heads_over_time(
            found.sequences,
            found[name],
            label=text.split(":")[0].lower(),
            phase_change=subject.phase_change,
        )
        yield _figure(figure, f"{text} {on}")


def _figure(figure: DrawnFigure, caption: str) -> str:
    """A picture with its text as outlines: an image in a page has no fonts."""
    file = io.BytesIO()
    with plots.style(), mpl.rc_context({"svg.fonttype": "path"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    data = base64.b64encode(file.getvalue()).decode()
    picture = f'<img alt="" src="data:image/svg+xml;base64,{data}">'
    shown = f'<div class="wide">{picture}</div>'
    return f"<figure>{shown}<figcaption>{caption}</figcaption></figure>"
