"""Attention patterns: of single heads on single sequences, and of all heads."""

import dataclasses
from collections.abc import Sequence
from typing import cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from ._drawn import DrawnFigure, Quantity
from ._style import figure, style
from ._tokens import token_at


@dataclasses.dataclass(frozen=True)
class _Colours:
    """The colours of weights, the same in one figure."""

    scale: Normalize
    map: str

    @staticmethod
    def of(weights: np.ndarray) -> "_Colours":
        """Shares of attention from 0 to 1; weights that are none as far as they go."""
        most = float(np.nanmax(np.abs(weights), initial=0))
        if np.nanmin(weights, initial=0) < 0:
            return _Colours(Normalize(-most, most), "RdBu_r")
        return _Colours(Normalize(0, max(1, most)), "Blues")


def attention_patterns(
    patterns: np.ndarray, tokens: Sequence[Sequence[str]], heads: Sequence[str]
) -> DrawnFigure:
    """Heat maps, a row for each head and a column for each sequence.

    **Arguments:**

    - `patterns`: `[head, sequence, query, key]`; keys are the first tokens, or all.
    - `tokens`: The name of each token of each sequence.
    - `heads`: The name of each head.
    """
    rows, columns, queries, keys = patterns.shape
    names = np.array([name.replace("\n", " ") for name in heads])
    axes = {
        "head": names,
        "sequence": np.arange(columns),
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
                _map(ax, patterns[row, column], names, colours)
                if column == 0:
                    ax.set_ylabel(f"{name}\nfrom token")
                if row == rows - 1:
                    ax.set_xlabel("to token")
                else:
                    ax.set_xticklabels([])
        _bar(fig, grid, colours)
    return fig


def token_maps(attention: np.ndarray, tokens: Sequence[str]) -> DrawnFigure:
    """The attention of every layer and head from each token to each, as heat maps.

    **Arguments:**

    - `attention`: At a checkpoint, the mean over sequences, `[layer, head, query,
        key]`; NaN where a layer has fewer heads. Keys are the first tokens, or all.
    - `tokens`: What stands at each position, `"label 0"`.
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
