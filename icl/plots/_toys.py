"""Toy models of phase changes: losses and measures against gradient steps."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patheffects import withStroke

from ._drawn import DrawnFigure, joined, Quantity
from ._style import add_groups, colours, figure, groups_of, style


_STEPS = "gradient steps"
_Curves = Mapping[str, Float[np.ndarray, " step"]]


def clamped_descents(
    panels: Mapping[str, _Curves],
    *,
    halves: Mapping[str, int | None],
    by: str = "clamped",
) -> DrawnFigure:
    """Draws descents of a toy under several clamps, with a panel for each measure.

    **Arguments:**

    - `panels`: By the label of the vertical axis, the curve of each clamp. The first
        panel is the loss.
    - `halves`: For each clamp, the step at which to mark half of its plateau; `None`
        for no mark.
    - `by`: What the clamps are; the title of the legend.
    """
    with style():
        fig = figure(2.9 * len(panels) + 1.4, 2.7)
        axes = np.atleast_1d(fig.subplots(1, len(panels)))
        for ax, (label, curves) in zip(axes, panels.items(), strict=True):
            for name, curve in curves.items():
                ax.plot(curve, label=name)
            _furnish(ax, label)
        loss = next(iter(panels.values()))
        for line in axes[0].get_lines():
            name, colour = str(line.get_label()), line.get_color()
            half = halves.get(name)
            if half is not None:
                at = half, loss[name][half]
                axes[0].plot(*at, "o", ms=4.5, color=colour)
                text = {"xytext": (6, 3), "textcoords": "offset points"}
                note = axes[0].annotate(f"{half}", at, color=colour, **text)
                note.set_path_effects([withStroke(linewidth=2, foreground="white")])
        add_groups(fig, axes[:1], by, "upper")
        fig.drawn = _quantities(panels)
    return fig


def vector_progress(
    progress: Mapping[str, _Curves], label: str = "1 − cos² to the true direction"
) -> DrawnFigure:
    """Draws how far each vector of a toy is learned, with a panel for each clamp.

    **Arguments:**

    - `progress`: By the title of a panel, the curve of each vector that is learned.
    - `label`: The label of the vertical axis.
    """
    names = groups_of(progress)
    with style():
        fig = figure(2.5 * len(progress) + 1.2, 2.5)
        axes = fig.subplots(1, len(progress), sharey=True, squeeze=False)[0]
        for ax, (title, curves) in zip(axes, progress.items(), strict=True):
            for name, curve in curves.items():
                ax.plot(curve, color=colours()[names.index(name) + 1], label=name)
            ax.set_title(title)
            _furnish(ax, label if ax is axes[0] else "")
        add_groups(fig, axes, "vector", "upper")
        fig.drawn = _quantities(progress, label)
    return fig


def two_mechanisms(
    losses: _Curves,
    *,
    total: str,
    plateau: float | None = None,
    divot: tuple[str, int, int] | None = None,
) -> DrawnFigure:
    """Draws losses of mechanisms that share vectors, with a zoom into the divot.

    **Arguments:**

    - `losses`: By name, the total loss, the loss of each mechanism, and what they cost.
    - `total`: The name of the total loss, which is drawn in black.
    - `plateau`: Where to draw a horizontal line.
    - `divot`: The name of the loss that dips while another mechanism is learned, the
        step of its low, and the step of the high after it.
    """
    with style():
        fig = figure(8.6 if divot else 5.6, 2.9)
        widths = (1.0,) if divot is None else (1.5, 1.0)
        axes = fig.subplots(1, len(widths), squeeze=False, width_ratios=widths)
        ax, drawn = axes[0, 0], {}
        names = [total, *(name for name in losses if name != total)]
        for k, name in enumerate(names):
            above = 3 if name == total else 2
            ax.plot(losses[name], color=colours()[k], label=name, zorder=above)
            drawn[name] = _quantity(losses[name], "loss")
        if plateau is not None:
            text = f"plateau {plateau:.3f}"
            ax.axhline(plateau, color="0.6", lw=0.8, ls=":", label=text)
        _furnish(ax, "loss")
        if divot is not None:
            name, low, high = divot
            colour = colours()[names.index(name)]
            _close_by(axes[0, 1], losses[name], low, high, name, colour)
            ax.axvspan(*_around(low, high), color="0.9", lw=0, zorder=0)
        add_groups(fig, [ax], place="upper")
        fig.drawn = drawn
    return fig


def mechanism_seeds(
    losses: Mapping[str, Mapping[str, Float[np.ndarray, "seed step"]]],
    halves: Mapping[str, Sequence[int | None]],
) -> DrawnFigure:
    """Draws the losses of mechanisms for many seeds as thin lines, and their median.

    Seeds leave the plateau at different steps and heights. So the steps of each seed
    are divided by the step at which its loss is half of the plateau, and its losses by
    the loss halfway to that step.

    **Arguments:**

    - `losses`: By the title of a panel, the losses of each mechanism. A seed that
        stopped has NaN from there on; the median then uses its last value.
    - `halves`: By the title, the step of each seed at half of the plateau; a seed
        without one is left out.
    """
    names = list(next(iter(losses.values())))
    times = np.linspace(0, 3, 601)
    with style():
        fig = figure(3.1 * len(losses) + 1.6, 2.7)
        axes = fig.subplots(1, len(losses), sharey=True, squeeze=False)[0]
        drawn, highest = {}, 1.0
        for ax, (title, by_name) in zip(axes, losses.items(), strict=True):
            reached = {k: h for k, h in enumerate(halves[title]) if h is not None}
            seeds = [*reached]
            for name, colour in zip(names, colours()[1:], strict=False):
                aligned = [
                    _aligned(by_name[name][k], half, times)
                    for k, half in reached.items()
                ]
                median = _seeds(ax, times, np.stack(aligned), colour, name)
                highest = max(highest, median.max())
                where = {"seed": np.array(seeds), "time": times}
                drawn[f"{title}/{name}"] = Quantity(np.stack(aligned), where, _RELATIVE)
            ax.axvline(1, color="0.6", lw=0.8, ls="--")
            ax.set_title(f"{title} ({len(seeds)} of {len(halves[title])} seeds)")
            _furnish(ax, _RELATIVE if ax is axes[0] else "")
            ax.set_xlabel("gradient steps ÷ steps to half of the plateau")
            ax.set_xlim(0, times[-1])
        axes[0].set_ylim(0, 1.1 * highest)
        add_groups(fig, axes[:1], "median of seeds", "upper")
        fig.drawn = drawn
    return fig


_RELATIVE = "loss ÷ loss on the plateau"


def _seeds(
    ax: Axes, times: np.ndarray, losses: np.ndarray, colour: str, name: str
) -> np.ndarray:
    lines = [np.stack([times, one], 1) for one in losses]
    ax.add_collection(LineCollection(lines, colors=colour, linewidths=0.5, alpha=0.4))
    median = np.nanmedian(losses, axis=0)
    ax.plot(times, median, color=colour, label=name, lw=1.8)
    return median


def _aligned(losses: np.ndarray, half: int, times: np.ndarray) -> np.ndarray:
    """One seed's losses at times in units of `half`; NaN after the array ends.

    They are divided by the loss at step `half // 2`.
    """
    steps = np.arange(len(losses))
    last = int(np.isfinite(losses).sum()) - 1
    held = losses[np.minimum(steps, last)]
    return np.interp(times * half, steps, held, right=np.nan) / held[half // 2]


def _close_by(ax: Axes, loss: np.ndarray, low: int, high: int, name: str, colour: str):
    start, stop = _around(low, high)
    start, stop = max(start, 0), min(stop, len(loss) - 1)
    steps = np.arange(start, stop + 1)
    ax.plot(steps, loss[steps], color=colour)
    for step, offset in ((low, -13), (high, 6)):
        ax.plot(step, loss[step], "o", ms=4, color=colour)
        ax.annotate(
            f"{loss[step]:.3f} at {step}",
            (step, loss[step]),
            xytext=(0, offset),
            textcoords="offset points",
            ha="center",
        )
    depth = loss[high] - loss[low]
    ax.set_ylim(loss[low] - 1.2 * depth, loss[high] + 1.2 * depth)
    ax.set_xlim(start, stop)
    ax.set_xlabel(_STEPS)
    ax.set_ylabel(f"loss of {name}")


def _around(low: int, high: int) -> tuple[int, int]:
    return low - 2 * (high - low), high + 2 * (high - low)


def _furnish(ax: Axes, label: str) -> None:
    ax.set_xlabel(_STEPS)
    ax.set_ylabel(label)
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)


def _quantities(panels: Mapping[str, _Curves], label: str = "") -> dict[str, Quantity]:
    """The curves of all panels; without a label, the name of the panel is it."""
    return {
        joined(title, name): _quantity(curve, label or title)
        for title, curves in panels.items()
        for name, curve in curves.items()
    }


def _quantity(curve: np.ndarray, label: str) -> Quantity:
    return Quantity(curve, {"step": np.arange(len(curve))}, label)
