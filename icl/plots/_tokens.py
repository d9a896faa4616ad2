"""Attention from each token to each token, over training."""

from collections.abc import Sequence

import numpy as np

from ._drawn import DrawnFigure
from ._groups import MOST_GROUPS
from ._panels import draw, Look, Panel


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
