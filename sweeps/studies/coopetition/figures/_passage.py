"""Figure 1b of the coopetition paper, and the divot of figure 5 in a transformer."""

import numpy as np

import icl
from icl import plots, toys

from ....figures import (
    Figure,
    Measured,
    NATS,
    QUOTIENT,
    rows_of,
    Runs,
    Within,
)
from ..._transience import comes_and_goes, rows, TRANSIENT
from ._common import MAIN, METRIC, PAPER


def _divot(runs: Runs) -> Measured:
    """The largest rise of the loss on `ciwl` before the peak on `flip`."""
    rises, ratios, curves, sequences = [], [], [], np.empty(0)
    for folder in runs.folders["main"]:
        log = icl.Run(folder).log
        accuracy = log.evaluations["flip"][METRIC].mean(1)
        until = int(np.argmax(accuracy[1:])) + 2
        each = log.evaluations["ciwl"]["loss"]
        low, high = toys.rise(each[:until].mean(1))
        rise = each[high] - each[low]
        rises.append(rise.mean())
        ratios.append(rise.mean() / (rise.std(ddof=1) / np.sqrt(len(rise))))
        curves.append(each.mean(1))
        sequences = log.events
    values = {"rise": np.array(rises), "rise ÷ standard error": np.array(ratios)}
    figure = plots.traces(
        sequences, np.stack(curves, 1), label="loss on ciwl (nats)", trace="seed"
    )
    return Measured(values, figure)


FIGURES = (
    Figure(
        "coopetition/1b",
        "in-context learning appears, and later gives way to what is in the weights",
        f"{PAPER}, figure 1b: 12,800 classes, rate 1e-5, 64 million sequences",
        cost="40 min",
        about="accuracy among labels in context, and sequences seen",
        measure=comes_and_goes,
        # The target `icl end` is for 20 million sequences; at 320 million it is .466.
        rows=rows((0.713, 0.0146, 0.89, 0.60, 0.987), (3.3e6, 4.28e6, 6.3e6)),
        claims=TRANSIENT,
        **MAIN,
    ),
    Figure(
        "coopetition/divot",
        "while in-context learning gains, the loss on ciwl rises for some time",
        f"{PAPER}, figure 5, its right panel; the toy's divot is coopetition/5",
        cost="40 min",
        about="the largest rise before the peak on flip, in nats, and its significance",
        measure=_divot,
        rows=rows_of(NATS, ["rise"]) | rows_of(QUOTIENT, ["rise ÷ standard error"]),
        claims=(Within("rise ÷ standard error", low=3.0),),
        **MAIN,
    ),
)
