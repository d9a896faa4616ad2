"""The main run changed: its positions, depth, classes, or MLPs (the appendix)."""

from collections.abc import Iterable

import numpy as np

from ....figures import (
    ACCURACY,
    curves_by_set,
    draw_curves,
    Figure,
    Measured,
    Row,
    rows_of,
    Runs,
    Within,
)
from ..._transience import comes_and_goes, rows, TRANSIENT
from ._common import METRIC, PAPER


_VARIANTS = {
    "rotary positions": "rope",
    "sinusoidal positions": "sinusoidal",
    "one layer": "1-layer",
    "MLPs": "mlp",
    "12,800 × 5": "data-12800x5",
    "1600 × 20": "data-1600x20",
    "1600 × 5": "data-1600x5",
}
_WITHOUT = "without the previous-token heads"
_BLIND = "labels blind to the previous token"
_REJECTED = {
    _WITHOUT: "without-previous-token-heads",
    _BLIND: "no-previous-token-on-labels",
}


def _few(names: dict[str, str]) -> dict[str, str]:
    return {label: f"{run}-seed-{{seed}} | {run}" for label, run in names.items()}


def _rows(names: Iterable[str]) -> dict[str, Row]:
    whats = "flip peak", "icl peak", "ciwl end"
    return rows_of(ACCURACY, [f"{name}: {what}" for name in names for what in whats])


def _variants(runs: Runs) -> Measured:
    every = curves_by_set(runs, ("flip", "icl", "ciwl"), METRIC)
    values: dict[str, np.ndarray] = {}
    for name in runs.folders:
        flip, icl, ciwl = (each.by_label[name] for each in every.values())
        values[f"{name}: flip peak"] = flip[1:].max(0)
        values[f"{name}: icl peak"] = icl[1:].max(0)
        values[f"{name}: ciwl end"] = ciwl[-1]
    figure = draw_curves(
        {f"on {name}": each for name, each in every.items()},
        "accuracy among\nlabels in context",
        by="run",
        trace="run",
        limits=(0, 1.02),
        threshold=0.5,
        columns=3,
    )
    return Measured(values, figure)


_NEVER = ("rotary positions", "sinusoidal positions", "1600 × 20", "1600 × 5")
FIGURES = (
    Figure(
        "coopetition/variants",
        "whether in-context learning comes with other positions, depths or classes",
        f"{PAPER}, appendix",
        cost="60 min",
        about="accuracy among labels in context; classes × exemplars",
        study="coopetition",
        runs=_few(_VARIANTS),
        measure=_variants,
        rows=_rows(_VARIANTS),
        claims=(
            *(Within(f"{name}: flip peak", high=0.5) for name in _NEVER),
            # One layer has no induction heads, but CIWL needs only one.
            Within("one layer: icl peak", high=0.6),
            Within("one layer: ciwl end", low=0.9),
        ),
    ),
    Figure(
        "coopetition/rejected",
        "in-context learning without the heads that would do it",
        f"{PAPER}, figure 18",
        cost="40 min",
        about="accuracy among labels in context; heads of layer 0, found in the main "
        "run at its peak",
        study="coopetition",
        runs=_few(_REJECTED),
        measure=_variants,
        rows=_rows(_REJECTED),
        claims=(
            # Other heads take over, so it does not hang on lucky initial values.
            Within(f"{_WITHOUT}: icl peak", low=0.8),
            # The circuit of two layers needs such a head.
            Within(f"{_BLIND}: icl peak", high=0.6),
        ),
    ),
    Figure(
        "coopetition/published-rate",
        "the curves of figure 1b at the published learning rate",
        f"{PAPER}, figure 1b, to 20 million sequences",
        cost="2 h",
        about="accuracy among labels in context, and sequences seen",
        study="coopetition",
        runs={"main": "published-rate-seed-{seed} | main"},
        measure=comes_and_goes,
        rows=rows((0.713, 0.034, 0.89, 0.60, 0.97), (3.3e6, 4.28e6, 6.3e6)),
        claims=TRANSIENT,
    ),
)
