"""Attention patterns of single heads on single sequences."""

from collections.abc import Sequence

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from ._style import figure, style


_SCALE = Normalize(0, 1)


def attention_patterns(
    patterns: np.ndarray, tokens: Sequence[Sequence[str]], heads: Sequence[str]
) -> Figure:
    """Heat maps, a row for each head and a column for each sequence.

    **Arguments:**

    - `patterns`: `[head, sequence, query, key]`, in [0, 1].
    - `tokens`: The name of each token of each sequence.
    - `heads`: The name of each head.
    """
    rows, columns = patterns.shape[:2]
    with style():
        fig = figure(0.9 + 1.9 * columns, 0.4 + 1.9 * rows)
        axes = fig.subplots(rows, columns, squeeze=False)
        for row, name in enumerate(heads):
            for column, names in enumerate(tokens):
                ax = axes[row, column]
                ax.imshow(patterns[row, column], norm=_SCALE, cmap="Blues")
                ax.set_xticks(range(len(names)), names, rotation=90)
                ax.set_yticks(range(len(names)), names)
                if column == 0:
                    ax.set_ylabel(f"{name}\nfrom token")
                if row == rows - 1:
                    ax.set_xlabel("to token")
                else:
                    ax.set_xticklabels([])
        scale = ScalarMappable(_SCALE, "Blues")
        fig.colorbar(scale, ax=axes, label="attention", shrink=0.6)
    return fig
