"""One HTML page about a run, with everything in it."""

import base64
import contextlib
import dataclasses
import html
import importlib.resources
import io
import json
import math
import os
import string
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import image

from .. import measures, plots
from ..batches import size_of
from ..edits.tokens import token_roles
from ..experiments.curves import curves
from ..files import write_bytes
from ..plots import DrawnFigure
from ..runs import read_object, Run
from ..tasks.exemplar_label.answers import token_letters
from .figures import learning, Subject
from .grouping import Inapplicable


# What the page holds of attention patterns, at most. Bytes are base64, a third more.
_MOST_BYTES = 1_400_000
_MOST_CHECKPOINTS = 40
_MOST_SEQUENCES = 4


_MARK = b'<meta name="generator" content="icl report">'


def check_page(path: Path) -> None:
    """Raises `ValueError` unless a report may be written there."""
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"out must be a file in a folder that is there, got {path}")
    if path.suffix != ".html":
        raise ValueError(f"out must end in .html, got {path}")
    if path.exists() and _MARK not in path.read_bytes()[:1000]:
        raise ValueError(f"out: {path} is there and not a report; name another file")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"out: nothing can be written in {path.parent}")


def write_report(subject: Subject, path: Path) -> Path:
    """Writes the page about a run, whole or not at all.

    **Raises:** `OSError` for what cannot be written.
    """
    write_bytes(path, page(subject).encode())
    return path


def page(subject: Subject) -> str:
    """The page: config, learning curves, heads over training, attention patterns."""
    run = subject.trained.run
    template = importlib.resources.files("icl.report").joinpath("page.html")
    return string.Template(template.read_text()).substitute(
        title=_text(run.path.resolve().name),
        subtitle=_subtitle(subject),
        facts=_final(run, subject),
        sections="\n".join(_sections(subject)),
        config=_config(run.config),
        meta=_meta(run),
    )


def _sections(subject: Subject) -> Iterator[str]:
    run = subject.trained.run
    if run.log.evaluations:
        yield "<h2>Learning</h2>"
        logged = learning(dataclasses.replace(subject, edits=None))
        yield _figure(logged, "Means over the sequences of each set, as logged.")
    if subject.data == "":
        yield "<p>It has no evaluation sets, on which to look at its heads.</p>"
        return
    with contextlib.suppress(Inapplicable):  # Without token roles, say.
        heads = [*_heads(subject)]
        yield "<h2>Heads over training</h2>"
        yield from heads
    if subject.patterns:
        yield "<h2>Attention patterns</h2>"
        yield _patterns(subject)
    else:
        yield "<p>Its model has no attention patterns to show.</p>"


def _heads(subject: Subject) -> Iterator[str]:
    found = subject.replay(
        {
            "induction": measures.induction_strength(),
            "previous": measures.previous_token_strength(),
        }
    )
    on = f"Means over the sequences of “{_text(subject.data)}”."
    texts = {
        "induction": "Induction strength: the query's attention to the labels in "
        "context that are the answer, less that to the others.",
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


def _patterns(subject: Subject) -> str:
    """The patterns of some sequences at some checkpoints, and what shows them."""
    known = subject.trained.run.checkpoints
    sequences, count = _affordable(
        sum(math.prod(site.shape) for site in subject.patterns)
    )
    sequences = min(sequences, size_of(subject.batch))
    places = np.linspace(0, len(known) - 1, min(count, len(known)))
    chosen = [known[k] for k in np.unique(places.round().astype(int))]
    asked = {"patterns": measures.attention_patterns(over=measures.EachSequence())}
    found = subject.replay(asked, checkpoints=chosen, at_most=sequences)
    weights, names = _flat_heads(np.asarray(found["patterns"]))
    scale = _Scale.of(weights)
    patterns = scale.bytes(weights)
    tokens = _tokens(subject, sequences)
    data = {
        "checkpoints": [int(n) for n in found.sequences],
        "heads": names,
        "tokens": tokens,
        "keys": patterns.shape[-1],
        "low": scale.low,
        "high": scale.high,
        "colours": scale.colours(),
        "values": base64.b64encode(patterns.tobytes()).decode(),
    }
    options = "".join(
        f'<option value="{k}">{k}: {_text(" ".join(row))}</option>'
        for k, row in enumerate(tokens)
    )
    return _PATTERNS.substitute(
        last=len(chosen) - 1,
        seen=f"{chosen[-1]:,}",
        options=options,
        pictures=_pictures(names, patterns[-1, 0], scale.map),
        scale=scale.text,
        data=_text(subject.data),
        roles=_ROLES if hasattr(subject.batch, "labels") else "",
        json=_json(data),
    )


_PATTERNS = string.Template("""\
<p>Rows attend to columns, $scale: layer:head, on single sequences of “$data”.$roles</p>
<div class="controls" id="controls" hidden>
<button type="button" id="play">Play</button>
<input type="range" id="checkpoint" min="0" max="$last" value="$last"
 aria-label="checkpoint" autocomplete="off">
<output id="seen" for="checkpoint"></output>
<label>Sequence <select id="sequence" autocomplete="off">$options</select></label>
</div>
<noscript><p>At $seen sequences seen, the first sequence; the slider over checkpoints
needs JavaScript.</p></noscript>
$pictures
<p id="told"></p>
<script type="application/json" id="patterns">$json</script>""")


_ROLES = """
A and B are exemplars by their label, ℓ a label, and ? marks the query."""


@dataclasses.dataclass(frozen=True)
class _Scale:
    """What the bytes of the page mean: from `low`, 0, to `high`, 255."""

    low: float
    high: float
    map: str
    text: str

    @staticmethod
    def of(weights: np.ndarray) -> "_Scale":
        """Of shares of attention from 0 to 1; of other weights as far as they go."""
        most = float(np.nanmax(np.abs(weights), initial=0))
        if np.nanmin(weights, initial=0) < 0:
            text = f"red is positive and blue negative, up to {most:.3g}"
            return _Scale(-most, most, "RdBu_r", text)
        text = (
            "darker is more" if most <= 1.001 else f"darker is more, up to {most:.3g}"
        )
        return _Scale(0.0, max(1.0, most), "Blues", text)

    def bytes(self, weights: np.ndarray) -> np.ndarray:
        share = (np.nan_to_num(weights) - self.low) / (self.high - self.low)
        return np.clip(np.rint(255 * share), 0, 255).astype(np.uint8)

    def colours(self) -> list[list[int]]:
        stops = mpl.colormaps[self.map](np.linspace(0, 1, 17))
        return np.rint(255 * stops[:, :3]).astype(int).tolist()


def _tokens(subject: Subject, sequences: int) -> list[list[str]]:
    """What stands at each position of some sequences."""
    trained = subject.trained
    roles = token_roles(trained.model, trained.task, subject.batch)
    if not roles:
        return [subject.token_names] * sequences
    labels = np.asarray(subject.batch.labels)[:sequences]
    return [token_letters(roles, row) for row in labels.tolist()]


def _affordable(size: int) -> tuple[int, int]:
    """How many sequences and checkpoints fit, of so many bytes for each of both."""
    for sequences in range(_MOST_SEQUENCES, 0, -1):
        count = _MOST_BYTES // (size * sequences)
        if count >= _MOST_CHECKPOINTS // 2 or sequences == 1:
            return sequences, max(1, min(count, _MOST_CHECKPOINTS))
    raise AssertionError("unreachable")


def _flat_heads(patterns: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """`[checkpoint, sequence, layer, head, query, key]` with one axis of heads."""
    there = ~np.isnan(patterns).all((0, 1, 4, 5))
    names = [f"{layer}:{head}" for layer, head in np.argwhere(there).tolist()]
    return patterns[:, :, there], names


def _pictures(names: list[str], patterns: np.ndarray, colours: str) -> str:
    """A row for each layer, of pictures of its heads."""
    rows: dict[str, list[str]] = {}
    for name, pattern in zip(names, patterns, strict=True):
        picture = f'<img alt="attention of head {name}" src="{_png(pattern, colours)}">'
        caption = f"<figcaption>head {name}</figcaption>"
        figure = f'<figure class="head">{caption}{picture}</figure>'
        rows.setdefault(name.split(":")[0], []).append(figure)
    return "\n".join(
        f'<div class="heads">{"".join(row)}</div>' for row in rows.values()
    )


def _png(pattern: np.ndarray, colours: str) -> str:
    file = io.BytesIO()
    image.imsave(file, pattern, vmin=0, vmax=255, cmap=colours, format="png")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _figure(figure: DrawnFigure, caption: str) -> str:
    """A picture with its text as outlines: in an image, a page has no other fonts."""
    file = io.BytesIO()
    with plots.style(), mpl.rc_context({"svg.fonttype": "path"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    data = base64.b64encode(file.getvalue()).decode()
    width = round(96 * figure.get_figwidth())
    picture = f'<img width="{width}" alt="" src="data:image/svg+xml;base64,{data}">'
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def _subtitle(subject: Subject) -> str:
    run, experiment = subject.trained.run, subject.trained.experiment
    steps = len(run.log.train.get("loss", ()))
    seen = steps * experiment.training.batch_size
    wanted = experiment.training.num_sequences
    state = "" if seen >= wanted else f" of {wanted:,}"
    edits = subject.trained.edits if subject.edits is None else subject.edits
    parts = [
        f"{seen:,}{state} sequences seen in {steps:,} steps",
        f"{len(run.checkpoints):,} checkpoints",
        f"edits: {', '.join(map(str, edits))}" if edits else "no edits",
    ]
    return _text("; ".join(parts)) + "."


def _final(run: Run, subject: Subject) -> str:
    """A table of the last evaluation."""
    numbers = curves(subject.trained.run).numbers
    if not numbers:
        return ""
    first = next(iter(numbers.values()))
    own = [*subject.trained.experiment.task.summaries]
    known = [name for name in [*_FIRST, *own] if name in first] or [*first]
    head = "".join(
        f'<th class="number">{_text(n.replace("_", " "))}</th>' for n in known
    )
    rows = []
    for name, found in numbers.items():
        cells = (f'<td class="number">{found[n][-1]:.4f}</td>' for n in known)
        rows.append(
            f"<tr><td>{_text(name.replace('_', ' '))}</td>{''.join(cells)}</tr>"
        )
    return f"<table><tr><th>at the end</th>{head}</tr>{''.join(rows)}</table>"


_FIRST = ("loss", "accuracy", "in_context_accuracy", "context_probability")


def _config(config: Mapping[str, Any]) -> str:
    """A part of the config each, which opens."""
    single = {key: x for key, x in config.items() if not isinstance(x, Mapping)}
    parts = {"seeds and edits": single}
    parts |= {key: x for key, x in config.items() if isinstance(x, Mapping)}
    return "".join(
        f"<details><summary>{_text(name)}</summary>{_table(part)}</details>"
        for name, part in parts.items()
    )


def _meta(run: Run) -> str:
    file = run.path / "meta.json"
    return _table(read_object(file)) if file.is_file() else "<p>Not known.</p>"


def _table(tree: Mapping[str, Any]) -> str:
    rows = (
        f'<tr><td>{_text(name)}</td><td class="value">{_text(value)}</td></tr>'
        for name, value in _leaves(tree)
    )
    return f"<table>{''.join(rows)}</table>"


def _leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of JSON data by their path, `context.length`."""
    for key, value in tree.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, name)
        else:
            yield name, json.dumps(value, ensure_ascii=False)


def _json(data: Any) -> str:
    """JSON that a page can hold: nothing in it ends the script."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _text(words: str) -> str:
    return html.escape(words)
