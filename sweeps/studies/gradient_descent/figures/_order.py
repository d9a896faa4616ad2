"""Whether the order of the pairs changes what models predict."""

from ....figures import (
    dotted,
    Exceeds,
    Figure,
    Measured,
    of_each,
    rows_of,
    Runs,
    Within,
)
from .. import analysis
from ..analysis import ORDERS
from ..order.runs import FEW, ORDERS as TRAINED
from ._common import LOSS, RATIO


_RUNS = {
    f"{model}, {order}": f"ordered-{model}-{order}-seed-{{seed}}"
    for model in ("lsa", "copy")
    for order in TRAINED
}


def _sensitivity(runs: Runs) -> Measured:
    values = of_each(runs, analysis.by_order)
    shown = {k: v for k, v in values.items() if not k.endswith("predictions")}
    label = "loss, by order of training and of evaluation"
    return Measured(values, dotted(shown, _ROWS, label))


_ROWS = {
    **rows_of(RATIO, [f"{name}: difference of predictions" for name in _RUNS]),
    **rows_of(LOSS, [f"{name}: {order}" for name in _RUNS for order in ORDERS]),
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
