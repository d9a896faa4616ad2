"""What solves the task at the end: figure 3a and appendix B.1 of the coopetition paper.

A model that keeps its accuracy without any head uses its weights only (IWL), even if it
is good on `ciwl`. The paper's CIWL needs heads; on `flip` they turn to the wrong label.
"""

import math
from pathlib import Path

import icl
from icl import measures

from ....analysis import curves_of
from ....figures import (
    ACCURACY,
    ATTENTION,
    by_seed,
    dotted,
    draw_curves,
    Exceeds,
    Figure,
    Measured,
    rows_of,
    Runs,
    Within,
)
from ..analysis import lower_layer_ablations
from ._common import MAIN, METRIC, PAPER


def _strengths(runs: Runs) -> Measured:
    """The mean induction strength of layer 1's heads on `flip`."""
    found = []
    for folder in runs.folders["main"]:
        replayed = icl.replay(
            folder, {"strength": measures.induction_strength(1)}, data="flip"
        )
        found.append(
            ("mean of heads", (replayed.sequences, replayed["strength"].mean(1)))
        )
    curves = curves_of(found)
    values = {
        "mean of heads at its peak": curves.values[curves.sequences > 0].max(0),
        "mean of heads at the end": curves.values[-1],
    }
    figure = draw_curves(
        curves,
        "induction strength on flip,\nmean of layer 1's heads",
        groups=None,
        limits=None,
        threshold=0.0,
    )
    return Measured(values, figure)


_ABLATED = {
    ("train", "nothing"): 0.986,
    ("train", "all heads"): 0.627,
    ("ciwl", "nothing"): 0.987,
    ("ciwl", "all heads"): 0.624,
    ("flip", "nothing"): 0.0146,
    ("flip", "all heads"): 0.375,
    ("train", "layer 0 to the output"): 0.985,
    ("train", "layer 0 to queries"): 0.957,
    ("train", "layer 0 to keys"): 0.571,
    ("train", "layer 0 to values"): 0.593,
    # Chance is 1 in 12,800 labels; the labels in context do not help.
    ("iwl", "nothing"): math.nan,
}
_NAMES = {
    (data, what): f"{data} with everything"
    if what == "nothing"
    else f"{data} without {what}"
    for data, what in _ABLATED
}
_TARGETS = rows_of(ACCURACY, {_NAMES[key]: x for key, x in _ABLATED.items()})


def _ablations(runs: Runs) -> Measured:
    values = by_seed(runs.folders["main"], _ablated)
    label, known = "accuracy at the end", "paper (one seed)"
    return Measured(values, dotted(values, _TARGETS, label, known=known))


def _ablated(folder: Path) -> dict[str, float]:
    trained = icl.load(folder)
    edits, found = lower_layer_ablations(trained), {}
    for (data, what), name in _NAMES.items():
        if data not in trained.evaluations:
            found[name] = math.nan
            continue
        metric = "accuracy" if data == "iwl" else METRIC
        measure = measures.task_metric(trained.task, metric)
        asked = {metric: measures.Under(edits[what], measure)}
        replayed = icl.replay(trained, asked, data=data, checkpoints=[-1])
        found[name] = replayed[metric][0]
    return found


FIGURES = (
    Figure(
        "coopetition/3a",
        "heads of layer 1 turn: on flip they come to attend to the wrong label",
        f"{PAPER}, figure 3a",
        cost="40 min",
        about="attention to the correct label minus that to the other, on flip",
        measure=_strengths,
        rows=rows_of(
            ATTENTION,
            {"mean of heads at its peak": math.nan, "mean of heads at the end": -0.5},
        ),
        claims=(
            Within("mean of heads at its peak", low=0.1),
            Within("mean of heads at the end", high=0.0),
        ),
        **MAIN,
    ),
    Figure(
        "coopetition/B1",
        "the accuracy at the end without heads: CIWL needs heads, IWL does not",
        f"{PAPER}, appendix B.1",
        cost="40 min",
        about="accuracy among labels in context at the end (iwl: among all labels)",
        measure=_ablations,
        rows=_TARGETS,
        claims=(
            Within("train with everything", low=0.9),
            Within("train without all heads", high=0.7),
            Within("ciwl without all heads", high=0.7),
            Exceeds(
                "train without layer 0 to queries", "train without layer 0 to keys", 0.1
            ),
            Exceeds(
                "train without layer 0 to queries",
                "train without layer 0 to values",
                0.1,
            ),
        ),
        **MAIN,
    ),
)
