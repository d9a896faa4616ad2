"""The effect of ablating each head."""

import numpy as np

from ._drawn import DrawnFigure, Quantity
from ._style import figure, style
from ._undefined import explain_undefined, hatch_undefined, largest_size


def ablation(change: np.ndarray, *, label: str = "change in accuracy") -> DrawnFigure:
    """Draws the change of a metric when each head is ablated: a map, layers by heads.

    **Arguments:**

    - `change`: `[layer, head]`. NaN is hatched: where a layer has fewer heads, or where
        the number is undefined.
    - `label`: The label of the colour bar.
    """
    layers, heads = change.shape
    axes = {"layer": np.arange(layers), "head": np.arange(heads)}
    drawn = {"change": Quantity(change, axes, label)}
    largest = largest_size([change], 1e-6)
    bound = largest or 1.0
    with style():
        fig = figure(1.6 + 0.62 * heads, 1.1 + 0.55 * layers, drawn)
        ax = fig.subplots()
        image = ax.imshow(change, cmap="RdBu", vmin=-bound, vmax=bound, aspect="auto")
        hatch_undefined(ax, change)
        for (layer, head), value in np.ndenumerate(change):
            if np.isfinite(value):
                dark = abs(value) > 0.6 * bound
                colour = "white" if dark else "black"
                text = f"{value:+.3f}" if abs(value) >= 5e-4 else "0"
                ax.text(head, layer, text, ha="center", va="center", color=colour)
        ax.set_xticks(range(heads))
        ax.set_yticks(range(layers))
        ax.set_xlabel("head")
        ax.set_ylabel("layer")
        ax.spines[:].set_visible(False)
        if largest is not None:
            fig.colorbar(image, ax=ax, label=label, shrink=0.9)
        explain_undefined(fig, [change])
    return fig
