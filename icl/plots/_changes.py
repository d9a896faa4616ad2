"""The effect of ablating heads: on one metric, or on several over several sets."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from ..text import number
from ._drawn import DrawnFigure, Quantity
from ._maps import explain_undefined, hatch_undefined, heat_map, inches, largest_size
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
    ticks = [*map(str, range(layers))], [*map(str, range(heads))]
    drawn = _quantities(changes, ("layer", "head"))
    if by_layer is not None:
        drawn |= _quantities(by_layer, ("layer",), ", all heads")
        changes = {
            metric: {
                n: np.column_stack([x, by_layer[metric][n]]) for n, x in own.items()
            }
            for metric, own in changes.items()
        }
        ticks = ticks[0], [*ticks[1], "all"]
    width, height = inches(layers, len(ticks[1]))
    with style():
        size = 1.1 + (width + 1.0) * len(changes), (height + 0.75) * len(names)
        fig = figure(*size, drawn)
        axes = fig.subplots(len(names), len(changes), squeeze=False)
        for column, (metric, by_set) in enumerate(changes.items()):
            largest = largest_size(by_set.values(), 1e-6)
            bound = largest or 1.0
            image = None
            for row, (name, values) in enumerate(by_set.items()):
                ax = axes[row, column]
                image = heat_map(
                    ax,
                    values,
                    *ticks,
                    bound=bound,
                    colours=colours[metric],
                    signed=True,
                )
                title = name.replace("_", " ")
                if together is not None:
                    title += f" (all together {_signed(together[metric][name])})"
                ax.set_title(title, fontsize=9)
                ax.set_ylabel("layer" if column == 0 else "")
                ax.set_xlabel("head" if row == len(names) - 1 else "")
            assert image is not None
            if largest is None:
                axes[0, column].set_title(f"{metric}\n{axes[0, column].get_title()}")
            else:
                fig.colorbar(image, ax=axes[:, column], label=metric, fraction=0.05)
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


def change_bars(changes: Mapping[str, Changes], heads: Sequence[str]) -> Figure:
    """Draws bars for each head, with a panel per metric and a colour per set.

    **Arguments:**

    - `changes`: The changes by metric and set, `[head]`. The name of the metric labels
        the axis.
    - `heads`: The name of each head.
    """
    sets = len(next(iter(changes.values())))
    with style():
        fig = figure(1.8 + len(changes) * max(2.6, 0.3 + 0.16 * len(heads) * sets), 2.8)
        axes = fig.subplots(1, len(changes), squeeze=False)[0]
        places = np.arange(len(heads))
        for ax, (metric, by_set) in zip(axes, changes.items(), strict=True):
            for k, (name, values) in enumerate(by_set.items()):
                offset = (k - (sets - 1) / 2) * 0.8 / sets
                label = name.replace("_", " ")
                colour = f"C{k + 1}"  # Black, the first, is the axis.
                ax.bar(places + offset, values, 0.8 / sets, label=label, color=colour)
            ax.axhline(0, color="black", lw=0.8)
            ax.set_xticks(places, heads)
            ax.set_xlabel("head ablated")
            ax.set_ylabel(metric)
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside right center")
    return fig


def _signed(change: float) -> str:
    return number(change, "+.2f").replace("-", "−")
