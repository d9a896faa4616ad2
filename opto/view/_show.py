"""`opto.show`: recorded values as a page in a notebook."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.special
from jaxtyping import ArrayLike

from .._maps import Maps
from .._record import Record
from .._site import layer_of


Tokens = Sequence[Any] | None


@dataclasses.dataclass(frozen=True, repr=False)
class Shown:
    """Maps as HTML: a notebook shows it, and `save` writes it.

    It needs nothing from elsewhere. Without JavaScript there are small pictures.
    """

    maps: Maps

    def _repr_html_(self) -> str:
        return self.maps.html()

    def __repr__(self) -> str:
        examples, maps, rows, columns = self.maps.values.shape
        about = f"{maps} maps of {rows} {self.maps.row} by {columns} {self.maps.column}"
        return f"{self.maps.label}: {about}, {examples} examples (HTML)"

    def save(self, file: str | os.PathLike[str]) -> Path:
        """Writes a page of its own."""
        path = Path(file)
        head = '<!DOCTYPE html><html lang="en"><meta charset="utf-8">'
        view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
        title = "<title>opto.show</title>"
        path.write_text(f"{head}{view}{title}{self._repr_html_()}", encoding="utf-8")
        return path


def show(
    record: Record,
    site: str = "attn.pattern",
    *,
    tokens: Tokens = None,
    example: int | None = None,
) -> Shown:
    """Recorded values as maps that one can walk through, with the numbers.

    ```python
    _, record = opto.run(model, ids, record="**.pattern")
    opto.show(record, "attn.pattern", tokens=["the", "cat", …])
    ```

    Sites with axes `seq kv_seq` have a map for each head. Of sites with an axis `head`,
    the norm of each head's vector is shown at each token; of other sites with `seq`,
    the norm at each token, with all sites in one map. Scores of masked tokens are left
    blank.

    **Arguments:**

    - `site`: A name, the end of one, or a glob, as for `Record.pick`.
    - `tokens`: Texts of the tokens, for all examples or for each; numbers by default,
        or the ids if the record has `tokens.id`.
    - `example`: One example, counted over all batch axes; by default as many as a page
        of about a megabyte holds.

    **Raises:** `ValueError` for a site that was not recorded, was reduced or has no
    axis `seq`, for sites of different shapes, and for tokens that do not fit.
    """
    names = record.names(site)
    values = [_examples(record, name, example) for name in names]
    axes = _axes_of(record, names[0])
    if axes[-2:] == ("seq", "kv_seq"):
        heads = [x.reshape(len(x), -1, *x.shape[-2:]) for x in values]
        label, row, column = names[0].rsplit(".", 1)[-1], "query", "key"
        titles = [f"head {k}" for x in heads for k in range(x.shape[1])]
        groups = [_group(n) for n, x in zip(names, heads, strict=True) for _ in x[0]]
        maps = _joined(heads, names)
        maps = np.where(np.abs(maps) < 1e9, maps, np.nan)
    elif {"head", "kv_head"} & {*axes}:
        norms = [_norms(x, axes)[:, None] for x in values]
        most = max(x.shape[2] for x in norms)
        gap = lambda x: [(0, 0), (0, 0), (0, most - x.shape[2]), (0, 0)]
        norms = [np.pad(x, gap(x), constant_values=np.nan) for x in norms]
        label, row, column = f"norm of {_end(names)}", "head", "token"
        titles, groups = [_group(name) for name in names], [""] * len(names)
        maps = _joined(norms, names)
    else:
        label, row, column = f"norm of {_end(names)}", "site", "token"
        titles, groups = [""], [""]
        maps = _joined([_norms(x, axes)[:, None] for x in values], names)[:, None]
    length = values[0].shape[1 + axes.index("seq")]
    texts = _texts(_known(record, tokens, length), example, len(maps), length)
    rows = {
        "query": texts,
        "head": [[str(k) for k in range(maps.shape[2])]] * len(maps),
        "site": [names] * len(maps),
    }
    columns = [of[: maps.shape[-1]] for of in texts]
    return Shown(Maps(maps, titles, groups, rows[row], columns, row, column, label))


def show_lens(
    logits: ArrayLike,
    names: Sequence[str],
    *,
    labels: Sequence[str] | None = None,
    tokens: Tokens = None,
    example: int | None = None,
    top: int = 3,
) -> Shown:
    """What `opto.lens.logit_lens` gives: the most probable label at each token.

    **Arguments:**

    - `logits`, `names`: Its results, `[site, *batch, seq, label]`.
    - `labels`: Texts of the labels; numbers by default.
    - `tokens`, `example`: As for `opto.show`.
    - `top`: How many labels are named, with their probabilities.

    **Raises:** `ValueError` for arrays, labels or tokens that do not fit.
    """
    values = np.asarray(logits, np.float32)
    if values.ndim < 3 or len(values) != len(names):
        wanted = f"[site, *batch, seq, label] of {len(names)} sites"
        raise ValueError(f"logits: wanted {wanted}, got {list(values.shape)}")
    values = values.reshape(len(values), -1, *values.shape[-2:]).swapaxes(0, 1)
    values = _chosen(values, example)
    if labels is not None and len(labels) != values.shape[-1]:
        wanted = f"{values.shape[-1]} texts"
        raise ValueError(f"labels: wanted {wanted}, got {len(labels)}")
    shares = scipy.special.softmax(values, -1)
    best = np.argsort(-shares, -1, kind="stable")[..., :top]
    of = np.take_along_axis(shares, best, -1)
    text = lambda k: str(k) if labels is None else str(labels[k])
    words = [
        [
            [
                [
                    ", ".join(f"{text(k)} {p:.2f}" for k, p in zip(*cell, strict=True))
                    for cell in zip(ks, ps, strict=True)
                ]
                for ks, ps in zip(*pair, strict=True)
            ]
        ]
        for pair in zip(best, of, strict=True)
    ]
    texts = _texts(tokens, example, len(values), values.shape[2])
    rows = [[*names]] * len(values)
    maps = of[..., 0][:, None]
    about = "site", "token", "logit lens: most probable label"
    return Shown(Maps(maps, [""], [""], rows, texts, *about, words))


def _axes_of(record: Record, name: str) -> tuple[str, ...]:
    axes = record.axes_of(name)
    if axes is None or "seq" not in axes:
        why = "was reduced" if axes is None else f"has the axes {' '.join(axes)}"
        raise ValueError(f"show needs a site with an axis seq; {name!r} {why}")
    return axes


def _examples(record: Record, name: str, example: int | None) -> np.ndarray:
    """The values of a site, `[example, …]`."""
    axes = _axes_of(record, name)
    value = np.asarray(record[name], np.float32)
    return _chosen(value.reshape(-1, *value.shape[value.ndim - len(axes) :]), example)


def _joined(maps: Sequence[np.ndarray], names: Sequence[str]) -> np.ndarray:
    """The maps of all sites, one after the other; their rows and columns are alike."""
    if len({(x.ndim, len(x), *x.shape[2:]) for x in maps}) > 1:
        raise ValueError(f"the sites {', '.join(names)} differ in their axes or shape")
    return np.concatenate(maps, 1)


def _chosen(values: np.ndarray, example: int | None) -> np.ndarray:
    if example is None:
        return values
    if not -len(values) <= example < len(values):
        raise ValueError(f"example {example} is out of range: there are {len(values)}")
    return values[[example]]


def _norms(values: np.ndarray, axes: tuple[str, ...]) -> np.ndarray:
    """`[example, head, seq]` or `[example, seq]`: norms over all other axes."""
    kept = [axis for axis in axes if axis in ("head", "kv_head", "seq")]
    others = tuple(1 + k for k, axis in enumerate(axes) if axis not in kept)
    norms = np.sqrt((values**2).sum(others)) if others else values
    return np.moveaxis(norms, 1 + kept.index("seq"), -1)


def _group(name: str) -> str:
    layer = layer_of(name)
    return name if layer is None else f"layer {layer}"


def _end(names: Sequence[str]) -> str:
    return names[0].rsplit(".", 1)[-1] if len(names) > 1 else names[0]


def _known(record: Record, tokens: Tokens, length: int) -> Tokens:
    """The given tokens, or the ids if the record has them."""
    if tokens is None and "tokens.id" in record:
        ids = np.asarray(record["tokens.id"])
        if ids.size and ids.shape[-1] == length:
            return ids.reshape(-1, length).tolist()
    return tokens


def _texts(
    tokens: Tokens, example: int | None, count: int, length: int
) -> list[list[str]]:
    """The texts of the tokens of each example."""
    if tokens is None:
        return [[str(k) for k in range(length)]] * count
    nested = bool(tokens) and isinstance(tokens[0], Sequence)
    nested = nested and not isinstance(tokens[0], str)
    rows = [[str(x) for x in row] for row in (tokens if nested else [tokens] * count)]
    if nested and example is not None:
        rows = rows[example : example + 1 or None]
    if len(rows) < count:
        raise ValueError(f"tokens: wanted those of {count} examples, got {len(rows)}")
    if wrong := [len(row) for row in rows[:count] if len(row) != length]:
        raise ValueError(f"tokens: wanted {length} for each example, got {wrong[0]}")
    return rows[:count]
