"""Linear self-attention from several seeds, and both models on ordered contexts.

`lsa-1` has one layer and `lsa-2` two tied ones, from the initial weights of the paper;
`lsa-1-wide` has points uniform in ±1, where more seeds stay in a second basin.
`ordered-lsa` and `ordered-copy` train on contexts in an order.

One layer is trained as in the public code at `small`, too. The others have smaller
batches and fewer steps there than in the paper, and a rate that falls to 0.
"""

import dataclasses
from pathlib import Path

from icl import Experiment
from icl.data import Source
from icl.models.linear_attention import LinearSelfAttentionConfig
from icl.models.softmax_copy import SoftmaxCopyConfig
from icl.tasks.regression import (
    LinearRegression,
    Ordering,
    RandomOrder,
    SmallToLargeNorm,
    UniformInputs,
)

from ....study import StudyScale, Trial, with_seeds
from .._trials import trained, trained_as_published


SEEDS = tuple(range(20, 28))
"""Of `lsa-1`, `lsa-2` and `lsa-1-wide`. Other seeds were seen before."""
FEW = SEEDS[:3]
"""Of the ordered runs."""
ORDERS: dict[str, Ordering] = {
    "random": RandomOrder(),
    "small_to_large": SmallToLargeNorm(),
}
"""The orders of training, by the name of the runs."""
WIDE = UniformInputs(1.0)

_TASK = LinearRegression()
_SMALL = {"lsa-2": (8000, 256), "copy": (8000, 256)}
# At 2e-3, the loss of 6000 such steps never left that of the zero predictor.
_COPY_RATES: dict[StudyScale, float] = {"smoke": 5e-3, "small": 5e-3, "paper": 1e-3}
_PAPER = {"lsa-2": (5000, 2048), "copy": (40_000, 2048)}


def trials(scale: StudyScale, folder: Path, data: Source | None) -> list[Trial]:
    """The runs of the study; see `sweeps.study.StudyModule`."""
    smoke = scale == "smoke"
    of_seeds = {
        "lsa-1": _lsa(scale, 1, _TASK),
        "lsa-2": _lsa(scale, 2, _TASK),
        "lsa-1-wide": _lsa(
            scale, 1, dataclasses.replace(_TASK, input_distribution=WIDE)
        ),
    }
    ordered = {}
    for name, order in ORDERS.items():
        task = dataclasses.replace(_TASK, ordering=order)
        ordered[f"ordered-lsa-{name}"] = _lsa(scale, 1, task)
        ordered[f"ordered-copy-{name}"] = _copy(scale, task)
    return [
        *with_seeds(of_seeds, SEEDS[:2] if smoke else SEEDS),
        *with_seeds(ordered, FEW[:2] if smoke else FEW),
    ]


def _lsa(scale: StudyScale, layers: int, task: LinearRegression) -> Experiment:
    model = LinearSelfAttentionConfig(num_layers=layers, tied=layers > 1)
    if layers == 1:
        return trained_as_published(task, model, scale=scale)
    steps, batch = _sizes(scale)[f"lsa-{layers}"]
    return trained(task, model, scale=scale, steps=steps, batch=batch)


def _copy(scale: StudyScale, task: LinearRegression) -> Experiment:
    steps, batch = _sizes(scale)["copy"]
    return trained(
        task,
        SoftmaxCopyConfig(),
        scale=scale,
        steps=steps,
        batch=batch,
        rate=_COPY_RATES[scale],
        clip=10.0,
    )


def _sizes(scale: StudyScale) -> dict[str, tuple[int, int]]:
    """Steps and the size of a batch."""
    return _PAPER if scale == "paper" else _SMALL
