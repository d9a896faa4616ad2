"""The effect of ablating heads: on one metric, or on several over several sets."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..text import as_text
from ._drawn import DrawnFigure, Quantity
from ._maps import (
    colour_bar,
    diverging,
    explain_undefined,
    heat_map,
    inches,
    number,
    places,
)
from ._style import figure, style


def ablation(change: np.ndarray, *, label: str = "change in accuracy") -> DrawnFigure:
    """Draws the change of a metric when each head is ablated: a map, layers by heads.

    **Arguments:**

    - `change`: `[layer, head]`. NaN is hatched: where a layer has fewer heads, or where
        the number is undefined.
    - `label`: The label of the colour bar.
    """
    layers, heads = change.shape
    axes = {"layer": np.arange(layers), "head": np.arange(heads)}
    text = lambda value: f"{value:+.3f}" if abs(value) >= 5e-4 else "0"
    with style():
        size = 1.6 + 0.62 * heads, 1.1 + 0.55 * layers
        fig = figure(*size, {"change": Quantity(change, axes, label)})
        ax = fig.subplots()
        scale = diverging([change])
        heat_map(ax, change, places(layers), places(heads), scale, text)
        ax.set_xlabel("head")
        ax.set_ylabel("layer")
        colour_bar(fig, scale, ax, label, [change])
        explain_undefined(fig, [change])
    return fig


Changes = Mapping[str, np.ndarray]


def change_maps(
    changes: Mapping[str, Changes],
    together: Mapping[str, Mapping[str, float]] | None = None,
    *,
    by_layer: Mapping[str, Changes] | None = None,
    colours: Mapping[str, str],
) -> DrawnFigure:
    """Draws maps of layers by heads, with a row per set and a column per metric.

    **Arguments:**

    - `changes`: The changes by metric and set, `[layer, head]`; NaN where there is no
        such head. The name of the metric labels the colour bar.
    - `together`: The changes by metric and set with all heads ablated at once.
    - `by_layer`: Those with all heads of a layer ablated at once, `[layer]`: a further
        column of the map.
    - `colours`: A diverging colour map for each metric.
    """
    names = list(next(iter(changes.values())))
    layers, heads = next(iter(next(iter(changes.values())).values())).shape
    columns = places(heads)
    drawn = _quantities(changes, ("layer", "head"))
    if by_layer is not None:
        drawn |= _quantities(by_layer, ("layer",), ", all heads")
        changes = {
            metric: {
                n: np.column_stack([x, by_layer[metric][n]]) for n, x in own.items()
            }
            for metric, own in changes.items()
        }
        columns = [*columns, "all"]
    width, height = inches(layers, len(columns))
    with style():
        size = 1.1 + (width + 1.0) * len(changes), (height + 0.75) * len(names)
        fig = figure(*size, drawn)
        axes = fig.subplots(len(names), len(changes), squeeze=False)
        for column, (metric, by_set) in enumerate(changes.items()):
            scale = diverging(by_set.values(), colours[metric])
            signed = lambda value: number(value, "+.2f")
            for ax, (name, values) in zip(axes[:, column], by_set.items(), strict=True):
                heat_map(ax, values, places(layers), columns, scale, signed)
                title = name.replace("_", " ")
                if together is not None:
                    whole = as_text(together[metric][name], "+.2f").replace("-", "−")
                    title += f" (all together {whole})"
                ax.set_title(title, fontsize=9)
            axes[-1, column].set_xlabel("head")
            if not colour_bar(fig, scale, axes[:, column], metric, by_set.values()):
                first = axes[0, column]
                first.set_title(f"{metric}\n{first.get_title()}", fontsize=9)
        for ax in axes[:, 0]:
            ax.set_ylabel("layer")
        explain_undefined(fig, (x for y in changes.values() for x in y.values()))
    return fig


def _quantities(
    changes: Mapping[str, Changes], axes: Sequence[str], of: str = ""
) -> dict[str, Quantity]:
    """The numbers of a figure, by metric and set."""
    return {
        f"{metric}/{name}{of}": Quantity(
            x, {a: np.arange(n) for a, n in zip(axes, x.shape, strict=True)}, metric
        )
        for metric, by_set in changes.items()
        for name, x in by_set.items()
    }
