"""Figures of Singh et al. 2024, "What needs to go right for an induction head?" (ICML;
arXiv 2404.07129), on losses and on a toy model.

Targets are read off the paper's figures, to about 2 %, and are of one seed, on features
of Omniglot. Heads are compared by their ranks: which number has which is chance.
"""

import math
from collections.abc import Mapping

import numpy as np

from icl import plots, toys

from ....analysis import HALF, MetricCurves
from ....figures import (
    Alike,
    crossings,
    curves,
    Figure,
    has_set,
    Measured,
    Ordering,
    Runs,
    Same,
    Within,
)
from ..edits import CLAMPS, NUM_HEADS
from ._heads import PAPER, rank


_TO_HALF = "sequences seen until the loss on training sequences is half of ln 2"
_SETS = ("train", "heldout_labels", "heldout_exemplars")


def _clamped(runs: Runs) -> Measured:
    found = curves(runs)
    values = crossings(found, HALF)
    to_tenth = crossings(found, 0.1)
    values |= {f"{label} to 0.1 nats": each for label, each in to_tenth.items()}
    return Measured(values, _losses(found, by="clamped"))


def _losses(found: MetricCurves, by: str) -> plots.DrawnFigure:
    """The loss of each run over training, thin, under the means over seeds."""
    return plots.traces(
        found.sequences,
        found.values,
        groups=np.array(found.labels),
        label="loss (nats)",
        by=by,
        trace="seed",
        limits=(0, None),
        threshold=HALF,
    )


def _three_losses(runs: Runs) -> Measured:
    sets = [name for name in _SETS if has_set(runs, name)]
    loss = {name: curves(runs, name) for name in sets}
    accuracy = {name: curves(runs, name, "in_context_accuracy") for name in sets}
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
    times = {label: each[0] for label, each in crossings(found, HALF).items()}
    alone = sorted(time for label, time in times.items() if label != "all heads")
    values = {f"{rank(k)} alone": np.array([t]) for k, t in enumerate(alone)}
    values["all heads"] = np.array([times["all heads"]])
    if math.isfinite(alone[-1]):
        values["last ÷ first"] = np.array([alone[-1] / alone[0]])
    return Measured(values, _losses(found, by="heads of layer 1"))


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


_BASE = "50 classes (5 labels)"
_SIZES = (_BASE, "100 classes", "200 classes", "10 labels", "15 labels")
_TO_LEARN = {"all": "", "part B": "B: ", "part C": "C: ", "parts B, C": "BC: "}
_CLASSES = {50: _SIZES[0], 100: _SIZES[1], 200: _SIZES[2]}
_LABELS = {5: _SIZES[0], 10: _SIZES[3], 15: _SIZES[4]}


def _sizes(runs: Runs) -> Measured:
    every = {
        label: crossings(curves(Runs({label: folders}, runs.seeds)), HALF)[label]
        for label, folders in runs.folders.items()
    }
    axes = {"classes": _CLASSES, "labels": _LABELS}
    panels = {
        name: {
            part: {
                size: float(every[f"{short}{label}"][0])
                for size, label in sizes.items()
                if f"{short}{label}" in every
            }
            for part, short in _TO_LEARN.items()
        }
        for name, sizes in axes.items()
    }
    return Measured(every, plots.learning_times(panels, by="left to learn"))


def _size_runs() -> dict[str, str]:
    """The runs of figure 6, by the rows of its table."""
    scaled = {
        "": "",
        "100 classes": "classes-100-",
        "200 classes": "classes-200-",
        "10 labels": "labels-10-",
        "15 labels": "labels-15-",
    }
    clamps = {
        "": "long",
        "B: ": "clamp-layer-0-copy",
        "C: ": "clamp-match",
        "BC: ": "clamp-layer-0",
    }
    return {
        f"{short}{size or _BASE}": f"{prefix}{run}"
        for short, run in clamps.items()
        for size, prefix in scaled.items()
    }


def _sized(
    short: str, classes: tuple[float, ...], labels: tuple[float, ...]
) -> Mapping[str, float]:
    """Targets in thousands, of 50, 100, 200 classes and of 10, 15 labels."""
    targets = (*classes, *labels)
    return {f"{short}{s}": 1e3 * t for s, t in zip(_SIZES, targets, strict=True)}


def _descending(short: str, sizes: Mapping[int, str]) -> Ordering:
    return Ordering(tuple(f"{short}{sizes[n]}" for n in sorted(sizes, reverse=True)))


def _alike(short: str, sizes: Mapping[int, str]) -> Alike:
    return Alike(tuple(f"{short}{label}" for label in sizes.values()), 1.25)


FIGURES = (
    Figure(
        "induction/3a",
        "the loss on training sequences, other label pairs and other exemplars",
        f"{PAPER}, figure 3a",
        cost="10 min",
        about="sequences seen until the loss is half of ln 2, and the loss at the end",
        study="clamps",
        runs={"main": "seed-{seed}"},
        measure=_three_losses,
        targets={
            "train": 257e3,
            "heldout_labels": 313e3,
            "heldout_exemplars": 308e3,
            "train at the end": 0.006,
            "heldout_labels at the end": 0.03,
            "heldout_exemplars at the end": 0.12,
        },
        claims=(
            Ordering((("heldout_labels", "heldout_exemplars"), "train")),
            Ordering(
                tuple(
                    f"{name} at the end"
                    for name in ("heldout_exemplars", "heldout_labels", "train")
                )
            ),
        ),
    ),
    Figure(
        "induction/4b",
        "the loss with one head of layer 1 alone: any can do it, not all as soon",
        f"{PAPER}, figure 4b",
        cost="8 min",
        about=_TO_HALF,
        study="induction",
        runs={
            "all heads": "main",
            **{f"head {k}": f"only-head-{k}" for k in range(NUM_HEADS)},
        },
        measure=_one_head,
        targets={
            "all heads": 257e3,
            **{
                f"{rank(k)} alone": 1e3 * time
                for k, time in enumerate((291, 314, 359, 379, 435, 457, 547, 594))
            },
            "last ÷ first": 594 / 291,
        },
        claims=(
            Ordering(("1st head alone", "all heads")),
            Within("last ÷ first", low=1.3),
        ),
    ),
    Figure(
        "induction/5a",
        "a toy of three vectors: a phase change, which comes sooner if some are given",
        f"{PAPER}, figure 5a; targets are of its public code",
        cost="10 s",
        about="gradient steps until half of the plateau's loss, by what is clamped",
        measure=_phase_changes,
        targets={"none": 742, "c": 116, "b and c": 66},
        claims=(Ordering(("none", "c", "b and c")), Same(("none", "c", "b and c"))),
    ),
    Figure(
        "induction/5b",
        "the loss with parts of the circuit given: what the phase change waits for",
        f"{PAPER}, figure 5b",
        cost="35 min, or 7 for one of the seeds",
        about=f"{_TO_HALF}, by what is clamped",
        study="clamps",
        runs={name: f"seed-{{seed}}-{name}" for name in CLAMPS},
        measure=_clamped,
        targets={
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
        claims=(
            Ordering(
                (
                    "none",
                    "previous-token",
                    "layer-0",
                    ("match", "copy"),
                    "layer-0-copy",
                )
            ),
        ),
    ),
    Figure(
        "induction/6",
        "more classes act through subcircuit B, more labels through subcircuit C",
        f"{PAPER}, figure 6",
        cost="25 min",
        about=f"{_TO_HALF}, by what is left to learn: all, or subcircuits alone",
        study="induction",
        runs=_size_runs(),
        measure=_sizes,
        targets={
            **_sized("", (292, 365, 397), (842, 1380)),
            # Of part B the paper says that labels have no effect, and no number.
            **_sized("B: ", (24, 27, 30), (math.nan, math.nan)),
            **_sized("C: ", (28.5, 31, 30), (72, 104)),
            **_sized("BC: ", (71.5, 83, 91), (110, 144)),
        },
        claims=(
            _descending("", _CLASSES),
            _descending("", _LABELS),
            _descending("B: ", _CLASSES),
            _alike("B: ", _LABELS),
            _alike("C: ", _CLASSES),
            _descending("C: ", _LABELS),
            _descending("BC: ", _CLASSES),
            _descending("BC: ", _LABELS),
        ),
    ),
)
