"""Figures of the induction-head paper on losses: 3a, 4b and 5b, and the toy of 5a.

Singh et al. 2024, "What needs to go right for an induction head?" (ICML; arXiv
2404.07129).

Targets are read off the paper's figures to about 2 %; they are for one seed, on
features of Omniglot. Heads are compared by their ranks, as their numbers are chance.
"""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from icl import plots, toys

from ....analysis import HALF, MetricCurves
from ....figures import (
    crossings,
    curves,
    curves_by_set,
    draw_curves,
    Figure,
    Measured,
    NATS,
    Ordering,
    QUOTIENT,
    Row,
    rows_of,
    Runs,
    Same,
    SEQUENCES,
    STEPS,
    Times,
    Within,
)
from ..edits import CLAMPS as EDITS, NUM_HEADS
from ._common import CLAMPS, REPLICAS, SETS, TO_HALF
from ._heads import PAPER, rank


# The times of single heads, in thousands of sequences, in order.
_ALONE = (291, 314, 359, 379, 435, 457, 547, 594)
_IN_ORDER = ("all heads", *(f"{rank(k)} alone" for k in range(NUM_HEADS)))


def _clamped(runs: Runs) -> Measured:
    found = curves(runs)
    values = crossings(found, HALF)
    to_tenth = crossings(found, 0.1)
    values |= {f"{label} to 0.1 nats": each for label, each in to_tenth.items()}
    return Measured(values, draw_curves(found, by="clamped", threshold=HALF))


def _three_losses(runs: Runs) -> Measured:
    loss = curves_by_set(runs, SETS)
    accuracy = curves_by_set(runs, SETS, "in_context_accuracy")
    values = {}
    for name, found in loss.items():
        values[name] = crossings(found, HALF)["main"]
        values[f"{name} at the end"] = found.values[-1]
    figure = plots.learning_curves(
        loss["train"].sequences,
        {name: found.values for name, found in loss.items()},
        {name: found.values for name, found in accuracy.items()},
        threshold=HALF,
    )
    return Measured(values, figure)


def _one_head(runs: Runs) -> Measured:
    found = curves(runs)
    times = crossings(found, HALF)
    together = times.pop("all heads")
    ranked = _by_rank(found, times)
    alone = np.sort([*times.values()], axis=0)
    values = {f"{rank(k)} alone": each for k, each in enumerate(alone)}
    values["all heads"] = together
    values["median head alone"] = np.median(alone, axis=0)
    with np.errstate(invalid="ignore"):  # Unknown if no head got there.
        values["last ÷ first"] = alone[-1] / alone[0]
    figure = draw_curves(ranked, by="heads of layer 1", threshold=HALF)
    return Measured(values, figure)


def _by_rank(
    found: MetricCurves, times: Mapping[str, Float[np.ndarray, " seed"]]
) -> MetricCurves:
    """The same curves, with each head labelled by its rank among those of its seed."""
    labels = np.array(found.labels, dtype=object)
    columns = np.stack([np.flatnonzero(labels == name) for name in times])
    order = np.argsort([*times.values()], axis=0, kind="stable")
    for k, which in enumerate(order):
        labels[columns[which, np.arange(len(which))]] = f"{rank(k)} alone"
    every = [np.flatnonzero(labels == name) for name in _IN_ORDER]
    chosen = np.concatenate(every)
    return dataclasses.replace(
        found, values=found.values[:, chosen], labels=tuple(labels[chosen])
    )


# The toy model

_GIVEN = {"none": "none", "c": "c", "b, c": "b and c"}


def _phase_changes(runs: Runs) -> Measured:
    traces = toys.run(toys.induction(), 1)
    losses = {_GIVEN[name]: np.asarray(t.losses) for name, t in traces.items()}
    turned = {
        _GIVEN[name]: np.asarray(trace.measures["misalignment of a"])
        for name, trace in traces.items()
    }
    halves = {name: toys.half_time(each) for name, each in losses.items()}
    panels = {"loss": losses, "1 − cos² of a to the true a": turned}
    values = {
        name: np.array([math.inf if half is None else float(half)])
        for name, half in halves.items()
    }
    return Measured(values, plots.clamped_descents(panels, halves=halves))


FIGURES = (
    Figure(
        "induction/3a",
        "the loss on training sequences, held-out label pairs and held-out classes",
        f"{PAPER}, figure 3a",
        cost="20 min",
        about="sequences seen until the loss is half of ln 2, and the loss at the end",
        runs={"main": "seed-{seed}"},
        measure=_three_losses,
        rows={
            **rows_of(
                SEQUENCES,
                {"train": 257e3, "heldout_labels": 313e3, "heldout_classes": 308e3},
            ),
            **rows_of(
                NATS,
                {
                    "train at the end": 0.006,
                    "heldout_labels at the end": 0.03,
                    "heldout_classes at the end": 0.12,
                },
            ),
        },
        claims=(
            Ordering((("heldout_labels", "heldout_classes"), "train")),
            Ordering(
                tuple(
                    f"{name} at the end"
                    for name in ("heldout_classes", "heldout_labels", "train")
                )
            ),
            Within("heldout_classes at the end", high=0.2),
        ),
        **CLAMPS,
    ),
    Figure(
        "induction/4b",
        "the loss with only one head of layer 1: any can learn it, some later",
        f"{PAPER}, figure 4b",
        cost="20 min",
        about=TO_HALF,
        runs={
            "all heads": "seed-{seed}",
            **{f"head {k}": f"seed-{{seed}}-only-head-{k}" for k in range(NUM_HEADS)},
        },
        measure=_one_head,
        rows={
            **rows_of(
                SEQUENCES,
                {
                    "all heads": 257e3,
                    **{f"{rank(k)} alone": 1e3 * time for k, time in enumerate(_ALONE)},
                    "median head alone": 1e3 * (_ALONE[3] + _ALONE[4]) / 2,
                },
            ),
            "last ÷ first": Row(594 / 291, QUOTIENT),
        },
        claims=(
            # Any head can do it, even the last one.
            Within("8th head alone", high=1e6),
            Ordering(("median head alone", "all heads")),
            Within("last ÷ first", low=1.3),
        ),
        **REPLICAS,
    ),
    Figure(
        "induction/5b",
        "the loss with parts of the circuit given: what the phase change waits for",
        f"{PAPER}, figure 5b",
        cost="60 min, or 7 for one of the seeds",
        about=f"{TO_HALF}, by what is clamped",
        runs={name: f"seed-{{seed}}-{name}" for name in EDITS},
        measure=_clamped,
        rows=rows_of(
            SEQUENCES,
            {
                "none": 292e3,
                "previous-token": 197e3,
                "layer-0": 72e3,
                "match": 29e3,
                "copy": 35e3,
                "layer-0-copy": 25e3,
                "none to 0.1 nats": 415e3,
                "previous-token to 0.1 nats": 333e3,
                "layer-0 to 0.1 nats": 125e3,
                "match to 0.1 nats": 62e3,
                "copy to 0.1 nats": 95e3,
                "layer-0-copy to 0.1 nats": 50e3,
            },
        ),
        claims=(
            # It is clear that training is faster if more of the circuit is given; the
            # paper's point is how much faster.
            Ordering(("none", "previous-token")),
            Times("previous-token", "layer-0", 2),
            Times("layer-0", "match", 1.5),
            Times("layer-0", "copy", 1.5),
            Ordering(("copy", "match")),
            Ordering(("match", "layer-0-copy")),
        ),
        **CLAMPS,
    ),
    Figure(
        "induction/5a",
        "a toy of three vectors: a phase change, which comes sooner if some are given",
        f"{PAPER}, figure 5a; targets are from its public code",
        cost="10 s",
        about="gradient steps until half of the plateau's loss, by what is clamped",
        measure=_phase_changes,
        rows=rows_of(STEPS, {"none": 742, "c": 116, "b and c": 66}),
        claims=(Same(("none", "c", "b and c")),),
    ),
)
