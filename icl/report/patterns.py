"""The report's attention patterns, as pictures and as data that a script draws."""

import base64
import dataclasses
import html
import io
import math
import string
from typing import Any

import jax
import matplotlib as mpl
import numpy as np
from matplotlib import image

from opto.view import script_json

from .. import measures
from ..batches import size_of
from ..edits.tokens import token_roles
from ..tasks.exemplar_label.answers import token_letters
from .subject import Subject


# The most attention patterns in a page. As base64 the bytes take a third more.
_MOST_BYTES = 1_400_000
_MOST_CHECKPOINTS = 40
_MOST_SEQUENCES = 4


def patterns(subject: Subject) -> str:
    """A section of the page: patterns of some sequences at some checkpoints.

    **Raises:** `ValueError` if the run has no sequences or no checkpoints.
    """
    checkpoints, weights, names = _replayed(subject)
    every = len(subject.trained.run.checkpoints)
    scale = _Scale.of(weights)
    shown = scale.bytes(weights)
    few = jax.tree.map(lambda x: x[: weights.shape[1]], subject.batch)
    tokens = token_texts(subject, few)
    data = {
        "checkpoints": checkpoints,
        "heads": names,
        "tokens": tokens,
        "keys": shown.shape[-1],
        "low": scale.low,
        "high": scale.high,
        "colours": scale.colours(),
        "values": base64.b64encode(shown.tobytes()).decode(),
    }
    options = "".join(
        f'<option value="{k}">{k}: {html.escape(" ".join(row))}</option>'
        for k, row in enumerate(tokens)
    )
    return _MARKUP.substitute(
        last=len(checkpoints) - 1,
        seen=f"{checkpoints[-1]:,}",
        options=options,
        pictures=_pictures(names, shown[-1, 0], scale.map),
        scale=scale.text,
        count=f"all {every}"
        if len(checkpoints) == every
        else f"{len(checkpoints)} of its {every}",
        data=html.escape(subject.data),
        roles=_ROLES if hasattr(subject.batch, "labels") else "",
        json=script_json(data),
    )


def _replayed(subject: Subject) -> tuple[list[int], np.ndarray, list[str]]:
    """Checkpoints, `[checkpoint, sequence, head, query, key]`, and names of heads."""
    known = subject.trained.run.checkpoints
    sequences, count = _affordable(
        sum(math.prod(site.shape) for site in subject.patterns)
    )
    places = np.linspace(0, len(known) - 1, min(count, len(known)))
    chosen = [known[k] for k in np.unique(places.round().astype(int))]
    asked = {"patterns": measures.attention_patterns(over=measures.EachSequence())}
    found = subject.replay(asked, checkpoints=chosen, at_most=sequences)
    weights, names = _flat_heads(np.asarray(found["patterns"]))
    return [int(n) for n in found.sequences], weights, names


_MARKUP = string.Template("""\
<p>Each map is one head (layer:head) on one sequence of “$data”. Rows attend to columns;
$scale.$roles The slider has $count checkpoints.</p>
<div class="controls" id="controls" hidden>
<button type="button" id="play">Play</button>
<input type="range" id="checkpoint" min="0" max="$last" value="$last"
 aria-label="checkpoint" autocomplete="off">
<output id="seen" for="checkpoint"></output>
<label>Sequence <select id="sequence" autocomplete="off">$options</select></label>
</div>
<noscript><p>This is the first sequence after $seen sequences seen. The slider over
checkpoints needs JavaScript.</p></noscript>
$pictures
<p id="told"></p>
<script type="application/json" id="patterns">$json</script>""")


_ROLES = """
A and B are exemplars, named by their labels; ℓ marks a label and ? the query."""


@dataclasses.dataclass(frozen=True)
class _Scale:
    """The scale of the bytes in the page: 0 means `low` and 255 means `high`."""

    low: float
    high: float
    map: str
    text: str

    @staticmethod
    def of(weights: np.ndarray) -> "_Scale":
        """The scale for weights: from 0 to 1, or to the largest weight if that is more.

        With negative weights, it goes as far below 0 as above, up to the largest size.
        """
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


def token_texts(subject: Subject, batch: Any) -> list[list[str]]:
    """The name of the token at each position, for each sequence of a batch."""
    trained = subject.trained
    roles = token_roles(trained.model, trained.task, batch)
    if not roles:
        return [subject.token_names] * size_of(batch)
    return [token_letters(roles, row) for row in np.asarray(batch.labels).tolist()]


def _affordable(size: int) -> tuple[int, int]:
    """How many sequences and checkpoints fit; each pair of them takes `size` bytes."""
    for sequences in range(_MOST_SEQUENCES, 0, -1):
        count = _MOST_BYTES // (size * sequences)
        if count >= _MOST_CHECKPOINTS // 2 or sequences == 1:
            return sequences, max(1, min(count, _MOST_CHECKPOINTS))
    raise AssertionError("unreachable")


def _flat_heads(patterns: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Joins layers and heads of `[checkpoint, sequence, layer, head, query, key]`."""
    there = ~np.isnan(patterns).all((0, 1, 4, 5))
    names = [f"{layer}:{head}" for layer, head in np.argwhere(there).tolist()]
    return patterns[:, :, there], names


def _pictures(names: list[str], patterns: np.ndarray, colours: str) -> str:
    """The pictures of the heads, with a row for each layer."""
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
