"""Attention from token to token: as maps, or over training."""

import dataclasses
from collections.abc import Sequence
from typing import cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from ._drawn import DrawnFigure, Quantity
from ._legend import MOST_GROUPS
from ._panels import draw, Look, Panel
from ._style import figure, style


# In one figure; more are too small to read and take minutes to draw.
_MOST_MAPS = 64


@dataclasses.dataclass(frozen=True)
class _Colours:
    """The colours of weights, the same for all panels of a figure."""

    scale: Normalize
    map: str

    @staticmethod
    def of(weights: np.ndarray) -> "_Colours":
        """The scale for weights: from 0 to 1, or further if the weights go further."""
        most = float(np.nanmax(np.abs(weights), initial=0))
        if np.nanmin(weights, initial=0) < 0:
            return _Colours(Normalize(-most, most), "RdBu_r")
        return _Colours(Normalize(0, max(1, most)), "Blues")


def attention_patterns(
    patterns: np.ndarray,
    tokens: Sequence[Sequence[str]] | None = None,
    heads: Sequence[str] | None = None,
) -> DrawnFigure:
    """Draws heat maps, with a row for each head and a column for each sequence.

    `attention_patterns(record["blocks.1.attn.pattern"][:3])` draws what was recorded.

    **Arguments:**

    - `patterns`: `[sequence, head, query, key]`, or `[head, query, key]` of one
        sequence. Keys are all tokens, or only the first ones.
    - `tokens`: The name of each token of each sequence; positions by default.
    - `heads`: The name of each head; `"head 0"` and so on by default.

    **Raises:** `ValueError` for arrays of other axes, for names that do not fit, and
    for too many maps.
    """
    patterns = np.asarray(patterns)
    if patterns.ndim == 3:
        patterns = patterns[None]
    if patterns.ndim != 4:
        wanted = "[sequence, head, query, key] or [head, query, key]"
        raise ValueError(f"patterns must be {wanted}, got shape {patterns.shape}")
    columns, rows, queries, keys = patterns.shape
    if rows * columns > _MOST_MAPS:
        got = f"{columns} sequences of {rows} heads"
        raise ValueError(f"patterns: at most {_MOST_MAPS} maps, got {got}; choose some")
    heads = [f"head {i}" for i in range(rows)] if heads is None else heads
    if len(heads) != rows:
        raise ValueError(f"heads: expected {rows} names, got {len(heads)}")
    tokens = _named_tokens(tokens, columns, queries)
    names = np.array([name.replace("\n", " ") for name in heads])
    axes = {
        "sequence": np.arange(columns),
        "head": names,
        "from": np.arange(queries),
        "to": np.arange(keys),
    }
    told = {"sequence": axes["sequence"], "from": axes["from"]}
    drawn = {
        "attention": Quantity(patterns, axes, "attention"),
        "tokens": Quantity(np.array(tokens), told, "name of each token"),
    }
    colours = _Colours.of(patterns)
    with style():
        fig = figure(0.9 + 1.9 * columns, 0.4 + 1.9 * rows, drawn)
        grid = fig.subplots(rows, columns, squeeze=False)
        for row, name in enumerate(heads):
            for column, names in enumerate(tokens):
                ax = grid[row, column]
                _map(ax, patterns[column, row], names, colours)
                if column == 0:
                    ax.set_ylabel(f"{name}\nfrom token")
                if row == rows - 1:
                    ax.set_xlabel("to token")
                else:
                    ax.set_xticklabels([])
        _bar(fig, grid, colours)
    return fig


def token_maps(attention: np.ndarray, tokens: Sequence[str]) -> DrawnFigure:
    """Draws every head's attention from each token to each token, as heat maps.

    **Arguments:**

    - `attention`: At one checkpoint, the mean over sequences, `[layer, head, query,
        key]`; NaN where a layer has fewer heads. Keys are all tokens, or only the first
        ones.
    - `tokens`: The name of the token at each position, such as `"label 0"`.
    """
    layers, heads, _, keys = attention.shape
    names = np.array([token_at(i, tokens) for i in range(len(tokens))])
    axes = {
        "layer": np.arange(layers),
        "head": np.arange(heads),
        "from": names,
        "to": names[:keys],
    }
    colours = _Colours.of(attention)
    drawn = {"attention": Quantity(attention, axes, "mean attention")}
    columns = min(heads, 8)
    rows = -(-heads // columns)
    side = 1.05 if keys <= 20 else 1.5
    with style():
        fig = figure(1.9 + side * columns, 0.6 + (side + 0.25) * rows * layers, drawn)
        grid = fig.subplots(rows * layers, columns, squeeze=False)
        for ax in grid.flat:
            ax.set_visible(False)
        for layer, head in np.ndindex(layers, heads):
            if np.isnan(attention[layer, head]).all():
                continue
            row, column = layer * rows + head // columns, head % columns
            ax = cast(Axes, grid[row, column])
            ax.set_visible(True)
            _map(ax, attention[layer, head], tokens, colours)
            ax.set_title(f"head {layer}:{head}")
            if column:
                ax.set_yticklabels([])
            else:
                ax.set_ylabel("from token")
            if row == len(grid) - 1:
                ax.set_xlabel("to token")
            else:
                ax.set_xticklabels([])
        _bar(fig, grid, colours)
    return fig


def _named_tokens(
    tokens: Sequence[Sequence[str]] | None, sequences: int, length: int
) -> Sequence[Sequence[str]]:
    if tokens is None:
        return [[str(i) for i in range(length)]] * sequences
    got = [len(names) for names in tokens]
    if got != [length] * sequences:
        wanted = f"{length} names for each of {sequences} sequences"
        raise ValueError(f"tokens: expected {wanted}, got {got}")
    return tokens


def _map(
    ax: Axes, pattern: np.ndarray, names: Sequence[str], colours: _Colours
) -> None:
    ax.imshow(pattern, norm=colours.scale, cmap=colours.map)
    every = -(-len(names) // 20)
    places = range(0, len(names), every)
    ax.set_yticks(places, [names[i] for i in places])
    keys = [i for i in places if i < pattern.shape[1]]
    ax.set_xticks(keys, [names[i] for i in keys], rotation=90)


def _bar(fig: DrawnFigure, grid: np.ndarray, colours: _Colours) -> None:
    scale = ScalarMappable(colours.scale, colours.map)
    fig.colorbar(scale, ax=grid, label="attention", shrink=0.6, aspect=30)


def token_pairs(
    sequences: np.ndarray,
    attention: np.ndarray,
    tokens: Sequence[str],
    *,
    queries: Sequence[int] | None = None,
    phase_change: float | None = None,
) -> DrawnFigure:
    """Draws the attention of each layer from each token to each token over training.

    Each layer has a row of panels, each attending token a panel, and each attended
    token a colour; many tokens have a colour map of their positions. Thin lines are
    single heads, thick lines their mean.

    **Arguments:**

    - `sequences`: Sequences seen, `[checkpoint]`.
    - `attention`: The mean over sequences, `[checkpoint, layer, head, query, key]`; NaN
        where a layer has fewer heads. Keys are all tokens, or only the first ones.
    - `tokens`: The name of the token at each position, such as `"label 0"`.
    - `queries`: The positions that have a panel; `None` is all except the first, which
        sees only itself.
    - `phase_change`: Where to draw a vertical line, in sequences seen.

    **Raises:** `ValueError` for arrays that do not fit together.
    """
    attention = np.asarray(attention)
    *_, queries_there, keys_there = (0, 0, *attention.shape)
    if attention.ndim != 5 or not keys_there <= queries_there == len(tokens):
        wanted = f"[checkpoint, layer, head, query={len(tokens)}, key]"
        raise ValueError(f"attention: wanted {wanted}, got {list(attention.shape)}")
    chosen = range(1, len(tokens)) if queries is None else queries
    shares = np.nanmin(attention) >= 0 and np.nanmax(attention) <= 1.02
    limits = (0, 1.02) if shares else None
    panels = []
    for layer in range(attention.shape[1]):
        for column, query in enumerate(chosen):
            values, keys = _to_each(attention[:, layer, :, query])
            names = np.array([token_at(int(key), tokens) for key in keys])
            # Too many names to tell apart: a colour map of positions.
            names = keys if keys_there > MOST_GROUPS else names
            title = f"from {token_at(int(query), tokens)}"
            name = f"layer {layer}/{title}"
            row = f"layer {layer}" if column == 0 else ""
            title = title if layer == 0 else ""
            panels.append(
                Panel(values, names, name, title, "attention", limits, row=row)
            )
    key = "attended token" if keys_there <= MOST_GROUPS else "attended position"
    look = Look(len(chosen), key, "head", phase_change=phase_change)
    return draw(sequences, panels, look)


def token_at(place: int, tokens: Sequence[str]) -> str:
    """A token's position and its name; only the position if the name is the same."""
    name = tokens[place]
    return name if name == str(place) else f"{place} {name}"


def _to_each(attention: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Makes `[checkpoint, head, key]` traces, and gives the key of each trace.

    Leaves out heads that do not exist, and keys that no head ever attends to because
    they come later.
    """
    heads = ~np.isnan(attention).all((0, 2))
    seen = (np.nan_to_num(attention) != 0).any((0, 1))
    keys = np.flatnonzero(seen)
    values = attention[:, heads][:, :, keys].transpose(0, 2, 1)
    return values.reshape(len(values), -1), np.repeat(keys, heads.sum())
