"""The report's facts: the progress of a run, its last evaluation, its config."""

import html
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..runs import is_finished, read_object, Run
from ..text import as_text
from .subject import Subject


def subtitle(subject: Subject) -> str:
    """How far the run has trained, and under which edits it is shown."""
    run, experiment = subject.trained.run, subject.trained.experiment
    steps = len(run.log.train.get("loss", ()))
    seen = steps * experiment.training.batch_size
    state = (
        "" if is_finished(run.path) else f" of {experiment.training.num_sequences:,}"
    )
    edits = subject.trained.edits if subject.edits is None else subject.edits
    parts = [
        f"{seen:,}{state} sequences seen in {steps:,} steps",
        f"{len(run.checkpoints):,} checkpoints",
        f"edits: {', '.join(map(str, edits))}" if edits else "no edits",
    ]
    return html.escape("; ".join(parts)) + "."


def final_table(subject: Subject) -> str:
    """A table of the last evaluation."""
    numbers = subject.curves.numbers
    if not numbers:
        return ""
    first = next(iter(numbers.values()))
    own = [*subject.trained.summaries]
    known = [name for name in [*_FIRST, *own] if name in first] or [*first]
    head = "".join(
        f'<th class="number">{html.escape(n.replace("_", " "))}</th>' for n in known
    )
    rows = []
    for name, found in numbers.items():
        cells = (
            f'<td class="number">{as_text(float(found[n][-1]))}</td>' for n in known
        )
        rows.append(
            f"<tr><td>{html.escape(name.replace('_', ' '))}</td>{''.join(cells)}</tr>"
        )
    table = f"<table><tr><th>at the end</th>{head}</tr>{''.join(rows)}</table>"
    return f'<div class="wide">{table}</div>{_terms(known)}'


def _terms(names: Iterable[str]) -> str:
    """Explains the metrics whose names are not clear by themselves."""
    items = (
        f"<dt>{html.escape(name.replace('_', ' '))}</dt><dd>{_TERMS[name]}</dd>"
        for name in names
        if name in _TERMS
    )
    about = "the examples of all training batches so far, repetitions included"
    seen = f"<dt>sequences seen</dt><dd>{about}</dd>"
    return f"<dl>{''.join(items)}{seen}</dl>"


_FIRST = ("loss", "accuracy", "in_context_accuracy", "context_probability")
_TERMS = {
    "in_context_accuracy": "how often the right label is the most probable one among "
    "the labels in the context",
    "context_probability": "the probability of all labels in the context together",
}


def config_parts(config: Mapping[str, Any]) -> str:
    """Each part of the config, as a section that opens."""
    single = {key: x for key, x in config.items() if not isinstance(x, Mapping)}
    parts = {"seeds and edits": single}
    parts |= {key: x for key, x in config.items() if isinstance(x, Mapping)}
    return "".join(
        f"<details><summary>{html.escape(name)}</summary>{_table(part)}</details>"
        for name, part in parts.items()
    )


def meta_table(run: Run) -> str:
    """A table of where and how the run was trained."""
    file = run.path / "meta.json"
    return _table(read_object(file)) if file.is_file() else "<p>Unknown.</p>"


def _table(tree: Mapping[str, Any]) -> str:
    rows = []
    for name, value in _leaves(tree):
        cell = f'<td class="value">{html.escape(value)}</td>'
        rows.append(f"<tr><td>{html.escape(name)}</td>{cell}</tr>")
    return f'<div class="wide"><table>{"".join(rows)}</table></div>'


def _leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of JSON data by their path, such as `context.length`."""
    for key, value in tree.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, name)
        else:
            yield name, json.dumps(value, ensure_ascii=False)
