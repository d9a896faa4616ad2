"""Figures A10, A12, A16 (with table 3) and A18 of the induction-head paper: the circuit
at checkpoints.

Targets are from the paper's text, for one seed; that of A18 is the mean over its five.
"""

import math
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy import stats

import icl
from icl import measures, plots
from icl.experiments import Trained

from ....analysis import curves_of, HALF
from ....figures import (
    ACCURACY,
    ATTENTION,
    by_seed,
    crossings,
    draw_curves,
    Figure,
    Measured,
    NATS,
    Ordering,
    Row,
    rows_of,
    Runs,
    SEQUENCES,
    Times,
    Within,
)
from .. import analysis
from ._common import CLAMPS
from ._heads import PAPER


_PROGRESS = ("as it is", "previous token clamped", "match clamped")


def _progress(runs: Runs) -> Measured:
    """The loss of one run for each seed, with parts clamped only when measured."""
    found = []
    for folder in runs.folders["none"]:
        trained = icl.load(folder)
        loss = measures.task_metric(trained.task, "loss")
        ends = icl.replay(
            trained,
            {
                "1": measures.induction_strength(1),
                "0": measures.previous_token_strength(0),
            },
            checkpoints=[-1],
        )
        matching, attending = (int(np.argmax(ends[layer][0])) for layer in "10")
        clamped = (
            loss,
            measures.previous_token_clamped(loss, [(0, attending)]),
            measures.match_clamped(loss, [(1, matching)]),
        )
        after = icl.replay(trained, dict(zip(_PROGRESS, clamped, strict=True)))
        found += [(name, (after.sequences, after[name])) for name in _PROGRESS]
    curves = curves_of(found)
    figure = draw_curves(curves, by="clamped afterwards", threshold=HALF)
    return Measured(crossings(curves, HALF), figure)


def _direct(runs: Runs) -> Measured:
    """The loss without what a layer writes to the output directly."""
    found = []
    for folder in runs.folders["main"]:
        ways = icl.replay(trained := icl.load(folder), analysis.direct_ways(trained))
        found += [(name, (ways.sequences, ways[name])) for name in ways.values]
    curves = curves_of(found)
    values = {name: each[-1] for name, each in curves.by_label.items()}
    return Measured(values, draw_curves(curves, by="without", threshold=HALF))


def _copies(runs: Runs) -> Measured:
    """What heads copy if they attend perfectly to the right label."""
    maps = []

    def of(folder: Path) -> dict[str, float]:
        trained = icl.load(folder)
        every = _some(trained)
        match = analysis.perfect_match(trained, data=every)
        strongest = analysis.head_table(trained, data=every).best
        fixed = np.delete(analysis.mended(match.right, strongest), strongest)
        maps.append(match.by_label)
        return {
            "the strongest head": match.accuracy[strongest],
            "share of its errors that another gets right": (
                np.nan if np.isnan(fixed).all() else np.nanmax(fixed)
            ),
        }

    values = by_seed(runs.folders["main"], of)
    figure = plots.head_maps(
        {"attention to the right label clamped": maps[0]},
        rows="head of layer 1, alone",
        columns="label",
        label="accuracy",
        limits=(0, 1),
    )
    return Measured(values, figure)


def _strength_and_accuracy(runs: Runs) -> Measured:
    points = []

    def of(folder: Path) -> dict[str, float]:
        trained = icl.load(folder)
        table = analysis.head_table(trained, data=_some(trained))
        strength, alone = table.strength, table.alone["accuracy"]
        points.append((strength, alone))
        correlation = np.asarray(stats.spearmanr(strength, alone)).item(0)
        return {
            "the strongest alone": alone[table.best],
            "rank correlation": correlation,
        }

    values = by_seed(runs.folders["main"], of)
    seeds = [f"seed {seed}" for seed in runs.seeds]
    figure = plots.dots(
        {"": dict(zip(seeds, points, strict=True))},
        x="induction strength",
        y="accuracy alone",
        by="run",
    )
    return Measured(values, figure)


def _some(trained: Trained) -> Any:
    """A part of all sequences, as all of them would take long for ten seeds."""
    key = jax.random.key(0)
    return icl.dense_set(trained.task, max_class_pairs=300, key=key)


FIGURES = (
    Figure(
        "induction/A10",
        "progress that the loss does not show: parts clamped only when measured",
        f"{PAPER}, figure A10, which gives no numbers",
        cost="5 min",
        about="sequences seen until the loss is half of ln 2, by what is clamped",
        runs={"none": "seed-{seed}-none"},
        measure=_progress,
        rows=rows_of(SEQUENCES, _PROGRESS),
        claims=(
            Ordering((_PROGRESS[0], _PROGRESS[1])),
            # Copying is learned on the plateau, well before the loss falls.
            Times(_PROGRESS[0], _PROGRESS[2], 1.25),
        ),
        **CLAMPS,
    ),
    Figure(
        "induction/A12",
        "what layers write directly to the output: layer 0's part hardly matters",
        f"{PAPER}, figure A12, which gives no loss (accuracy .99986)",
        cost="5 min",
        about="loss at the end, without what a layer writes to the output",
        runs={"main": "seed-{seed}"},
        measure=_direct,
        rows=rows_of(NATS, ("all", "without layer 0", "without layer 1")),
        claims=(
            Within("without layer 0", high=0.1),
            # Worse than guessing one of the two labels in context.
            Within("without layer 1", low=math.log(2)),
        ),
        **CLAMPS,
    ),
    Figure(
        "induction/A16",
        "heads that match perfectly do not copy all labels equally well",
        f"{PAPER}, figure A16 and table 3",
        cost="10 min",
        about="accuracy with the attention clamped to the right label; share of errors",
        runs={"main": "seed-{seed}"},
        measure=_copies,
        rows=rows_of(
            ACCURACY,
            {
                "the strongest head": 0.9993,
                "share of its errors that another gets right": 0.862,
            },
        ),
        claims=(
            Within("the strongest head", low=0.99),
            Within("share of its errors that another gets right", low=0.5),
        ),
        **CLAMPS,
    ),
    Figure(
        "induction/A18",
        "the stronger a head's induction, the more accurate it is alone",
        f"{PAPER}, figure A18",
        cost="10 min",
        about="accuracy of the strongest head alone; correlation over heads",
        runs={"main": "seed-{seed}"},
        measure=_strength_and_accuracy,
        rows={
            "the strongest alone": Row(
                float(np.mean((0.980, 0.992, 0.999, 0.933, 0.916))), ACCURACY
            ),
            "rank correlation": Row(math.nan, ATTENTION),
        },
        claims=(
            Within("the strongest alone", low=0.9),
            Within("rank correlation", low=0.7),
        ),
        **CLAMPS,
    ),
)
