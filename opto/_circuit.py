"""A circuit: some edges of a model, and how well they do alone."""

import dataclasses
from typing import Any, TYPE_CHECKING

import numpy as np

from ._site import Site


if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True, order=True)
class CircuitPart:
    """One end of an edge: a site, or one head of a site.

    **Fields:**

    - `site`: Its name, `blocks.1.attn.k_in`.
    - `head`: 0-based; `None` where the site has no heads.
    - `shared`: Whether `head` counts keys and values that several heads share.
    """

    site: str
    head: int | None = None
    shared: bool = False

    @staticmethod
    def of(site: Site, head: int | None) -> "CircuitPart":
        return CircuitPart(site.name, head, site.axes[:1] == ("kv_head",))

    @property
    def layer(self) -> int | None:
        """The layer it is in; `None` for the embedding and the output."""
        numbers = [part for part in self.site.split(".") if part.isdigit()]
        return int(numbers[0]) if numbers else None

    @property
    def node(self) -> str:
        """The part of the model: head `1:3`, `mlp 1`, or a scope: `final`, `layers.1`.

        `1:kv3` stands for keys and values that heads share.
        """
        *scope, last = self.site.split(".")
        if self.layer is None:
            return scope[0] if scope else last
        if self.head is not None:
            return f"{self.layer}:{'kv' if self.shared else ''}{self.head}"
        return f"mlp {self.layer}" if "mlp" in scope else ".".join(scope)

    @property
    def channel(self) -> str:
        """`q`, `k` or `v` if the site feeds only queries, keys or values; else ""."""
        last = self.site.split(".")[-1]
        return last[0] if last in ("q_in", "k_in", "v_in") else ""

    def __str__(self) -> str:
        return f"{self.node}.{self.channel}" if self.channel else self.node


@dataclasses.dataclass(frozen=True)
class Edge:
    """What one part writes and another reads.

    **Fields:**

    - `writer`, `reader`: The two ends.
    - `score`: How much cutting the edge changes the metric, to first order.
    """

    writer: CircuitPart
    reader: CircuitPart
    score: float

    def __str__(self) -> str:
        return f"{self.writer} -> {self.reader} ({self.score:+.3g})"


@dataclasses.dataclass(frozen=True)
class Circuit:
    """The edges that `find_circuit` found, and the metric with and without them.

    **Fields:**

    - `edges`: The edges of the circuit.
    - `total`: How many edges the model has.
    - `whole`: The metric of the whole model.
    - `alone`: The metric with every other edge cut.
    - `without`: The metric with only the circuit's edges cut.
    - `none`: The metric with every edge cut: the model on the other inputs.
    """

    edges: tuple[Edge, ...]
    total: int
    whole: float
    alone: float
    without: float
    none: float

    @property
    def faithfulness(self) -> float:
        """The share of the metric that the circuit keeps alone: 1 is all, 0 is none."""
        return _share(self.alone, self.none, self.whole)

    @property
    def completeness(self) -> float:
        """The share of the metric that is lost without the circuit: 1 is all of it."""
        return 1 - _share(self.without, self.none, self.whole)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The parts that the edges join, such as `embed`, `0:3`, `mlp 0`, `final`."""
        return tuple(self._heights())

    def pairs(self) -> set[tuple[str, str]]:
        """The edges as pairs of texts: `("0:2", "1:3.k")`."""
        return {(str(edge.writer), str(edge.reader)) for edge in self.edges}

    def __str__(self) -> str:
        lines = [
            f"{len(self.edges)} of {self.total} edges; metric {self.alone:.4g} alone, "
            f"{self.whole:.4g} whole, {self.none:.4g} with all cut: faithfulness "
            f"{self.faithfulness:.3f}, completeness {self.completeness:.3f}"
        ]
        strongest = sorted(self.edges, key=lambda edge: -abs(edge.score))
        return "\n".join([*lines, *(f"  {edge}" for edge in strongest)])

    def _heights(self) -> dict[str, float]:
        """How high each part is drawn, lowest first; in a layer, heads come first.

        A part in no layer is below all layers if it writes, else above them.
        """
        heights: dict[str, float] = {}
        for edge in self.edges:
            for end, without in ((edge.writer, -1.0), (edge.reader, np.inf)):
                inside = (end.layer or 0) + (0.0 if end.head is not None else 0.5)
                height = without if end.layer is None else inside
                heights[end.node] = min(height, heights.get(end.node, np.inf))
        return dict(sorted(heights.items(), key=lambda item: item[1]))

    def figure(self) -> "Figure":
        """Draws the graph: layers upwards, an arrow per edge, wide for large scores."""
        from matplotlib.figure import Figure

        places = _places(self._heights())
        width = max(
            4.0,
            1.1
            * max(sum(n[1] == p[1] for n in places.values()) for p in places.values())
            + 1.5,
        )
        height = 1.2 * len({y for _, y in places.values()}) + 0.8
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
        most = max((abs(edge.score) for edge in self.edges), default=1.0) or 1.0
        drawn: dict[str, object] = {}
        for edge in self.edges:
            style = _STYLES[edge.reader.channel]
            start, end = places[edge.writer.node], places[edge.reader.node]
            # An arrow past other parts bends around them.
            bend = style[3] * max(1.0, end[1] - start[1])
            arrow = axes.annotate(
                "",
                end,
                start,
                arrowprops={
                    "arrowstyle": "-|>",
                    "shrinkA": 14,
                    "shrinkB": 14,
                    "color": style[1],
                    "linestyle": style[2],
                    "linewidth": 0.6 + 2.4 * abs(edge.score) / most,
                    "connectionstyle": f"arc3,rad={bend}",
                },
            )
            drawn.setdefault(edge.reader.channel, arrow.arrow_patch)
        for node, (x, y) in places.items():
            axes.text(x, y, node, ha="center", va="center", bbox=_BOX, zorder=3)
        _finish(axes, places, drawn)
        axes.set_title(
            f"{len(self.edges)} of {self.total} edges, "
            f"faithfulness {self.faithfulness:.2f}",
            fontsize=10,
        )
        return figure


# For each channel: its name, colour (Okabe-Ito), line and bend.
_STYLES: dict[str, tuple[str, str, Any, float]] = {
    "q": ("queries", "#0072B2", "-", 0.13),
    "k": ("keys", "#D55E00", "--", -0.13),
    "v": ("values", "#009E73", "-.", 0.06),
    "": ("stream", "#444444", "-", -0.05),
}
_BOX = {"boxstyle": "round", "facecolor": "white", "edgecolor": "#444444"}


def _share(value: float, none: float, whole: float) -> float:
    return (value - none) / (whole - none) if whole != none else float("nan")


def _places(heights: dict[str, float]) -> dict[str, tuple[float, float]]:
    rows: dict[float, list[str]] = {}
    for node, height in heights.items():
        rows.setdefault(height, []).append(node)
    return {
        node: (i - (len(row) - 1) / 2, float(y))
        for y, key in enumerate(sorted(rows))
        for i, node in enumerate(sorted(rows[key], key=_column))
        for row in [rows[key]]
    }


def _column(node: str) -> int:
    return int(node.split(":")[1].removeprefix("kv")) if ":" in node else 0


def _finish(axes: Any, places: dict[str, tuple[float, float]], drawn: dict) -> None:
    xs, ys = zip(*places.values(), strict=True) if places else ((0,), (0,))
    axes.set_xlim(min(xs) - 0.8, max(xs) + 0.8)
    axes.set_ylim(min(ys) - 0.5, max(ys) + 0.5)
    axes.axis("off")
    if drawn:
        from matplotlib.lines import Line2D

        lines = [
            Line2D([], [], color=_STYLES[c][1], linestyle=_STYLES[c][2]) for c in drawn
        ]
        names = [_STYLES[c][0] for c in drawn]
        axes.legend(
            lines,
            names,
            title="read by",
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            frameon=False,
            fontsize=9,
        )
