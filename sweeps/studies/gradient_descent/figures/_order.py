"""Whether the order of the pairs changes what models predict."""

import numpy as np

from icl import plots

from ....figures import dotted, Exceeds, Figure, Measured, rows_of, Runs, Within
from .. import analysis
from ..analysis import ORDERS
from ..order.runs import FEW, ORDERS as TRAINED
from ._common import by_name, LOSS, NAN, RATIO


_RUNS = {
    f"{model}, {order}": f"ordered-{model}-{order}-seed-{{seed}}"
    for model in ("lsa", "copy")
    for order in TRAINED
}


def _sensitivity(runs: Runs) -> Measured:
    values: dict[str, np.ndarray] = {}
    for name, folders in runs.folders.items():
        found = by_name(analysis.by_order(folder) for folder in folders)
        values[f"{name}: difference of predictions"] = found["effect"]
        for order in ORDERS:
            values[f"{name}: {order}"] = found[order]
    return Measured({k: values[k] for k in _ROWS if k in values}, _drawn(values))


def _drawn(values: dict[str, np.ndarray]) -> plots.DrawnFigure:
    shown = {k: v for k, v in values.items() if not k.endswith("predictions")}
    return dotted(shown, _ROWS, "loss, by order of training and of evaluation")


_ROWS = {
    **rows_of(RATIO, {f"{name}: difference of predictions": NAN for name in _RUNS}),
    **rows_of(LOSS, {f"{name}: {order}": NAN for name in _RUNS for order in ORDERS}),
}

FIGURES = (
    Figure(
        "gd/order_sensitivity",
        "without positions, the order of pairs has no effect; with them, it may",
        "the public study of order and noise reports an effect for both models",
        cost="8 min",
        about="losses on the same tasks in several orders; noise for the last two",
        study="order",
        runs=_RUNS,
        measure=_sensitivity,
        rows=_ROWS,
        claims=(
            Within("lsa, random: difference of predictions", high=1e-5),
            Within("lsa, small_to_large: difference of predictions", high=1e-5),
            Exceeds(
                "copy, small_to_large: difference of predictions",
                "lsa, small_to_large: difference of predictions",
                1e-3,
            ),
        ),
        fresh=FEW,
    ),
)
