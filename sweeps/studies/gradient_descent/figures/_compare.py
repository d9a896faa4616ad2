"""Layers beside steps of gradient descent."""

from typing import Any

import numpy as np

from icl import plots

from ....figures import Exceeds, Figure, Measured, rows_of, Runs, Within
from .. import analysis
from ..layerwise.runs import SEEDS
from ..order.runs import SEEDS as ORDER_SEEDS
from ._common import (
    constant,
    DESCENT,
    FRACTION,
    GREEN,
    GREY,
    LOSS,
    NAN,
    over_seeds,
    PURPLE,
    RATIO,
    where_escaped,
)


_RUNS = {
    "final": "final-24-seed-{seed} | final-12-seed-{seed} | final-2-seed-{seed}",
    "every": "every-24-seed-{seed} | every-12-seed-{seed} | every-2-seed-{seed}",
    "tied": "tied-24-seed-{seed} | tied-12-seed-{seed} | tied-2-seed-{seed}",
}
_LOOKS: dict[str, tuple[str, dict[str, Any]]] = {
    "every": ("Trained Transformer", {"colour": PURPLE, "marker": "+"}),
    "final": ("trained in the last layer only", {"colour": "#c77cff", "dashed": True}),
    "tied": ("tied layers", {"colour": "#e07b39", "dashed": True}),
}
_AT = (1, 10, 50)
"""The steps of the roll-out whose numbers are in the table."""


def _rolled(runs: Runs) -> Measured:
    folders = runs.folders["lsa-1"]
    task = analysis.task_of(folders[0])
    there = np.array([analysis.escaped(folder) for folder in folders])
    ours = np.array([analysis.rolled_out(folder) for folder in folders])
    descent = np.array(
        [
            analysis.descent_rolled_out(task, analysis.seed_of(folder))
            for folder in folders
        ]
    )
    only = lambda x: np.where(there, x, NAN)
    ratios = ours[..., 1] / descent[..., 1]  # Of the medians over tasks.
    values = {
        "lsa-1: escaped": there.astype(float),
        **{f"median after {k} ÷ GD's": only(ratios[:, k]) for k in _AT},
        "diverged at the end": only(ours[:, -1, 4]),
        "GD: diverged at the end": descent[:, -1, 4],
        "mean at the end": only(ours[:, -1, 0]),
    }
    steps = np.arange(ours.shape[1])
    panels = {}
    for title, k in (("median", 1), ("first decile", 2), ("last decile", 3)):
        lines = {
            "Gradient descent": plots.Line(steps, descent[:, :, k].mean(0), **DESCENT)
        }
        if there.any():
            curves = over_seeds(ours[there][:, :, k])
            lines["Trained Transformer"] = plots.Line(
                steps, *curves, colour=PURPLE, marker="+"
            )
        panels[f"{title} over tasks"] = lines
    x = "GD Steps / Transformer Layers"
    return Measured(values, plots.lines(panels, x=x, y="Loss", scale="log"))


_ROLLED = {
    **rows_of(FRACTION, {"lsa-1: escaped": 7 / 8}),
    **rows_of(RATIO, {f"median after {k} ÷ GD's": 1.0 for k in _AT}),
    **rows_of(RATIO, ("diverged at the end", "GD: diverged at the end")),
    **rows_of(LOSS, ["mean at the end"]),
}


def _deep(runs: Runs) -> Measured:
    given = {
        name: analysis.by_layer(runs.folders[name])
        for name in ("every", "final", "tied")
    }
    task = analysis.task_of(runs.folders["final"][0])
    depth = given["final"].shape[1] - 1
    layers, steps = np.arange(depth + 1), np.array(analysis.counts(depth))
    descent, each = analysis.expected_losses(task, depth)
    bayes = analysis.bayes_loss(task)
    panel = {
        "Gradient descent": plots.Line(steps, descent, **DESCENT),
        "descent with a rate for each step": plots.Line(
            steps, each, colour=GREEN, dashed=True
        ),
        "Bayes predictor": plots.Line(
            layers, np.full(len(layers), bayes), colour=GREY, dashed=True
        ),
    }
    seeds = given["final"][:, -1]
    values = {
        "GD: as many steps": constant(descent[-1], seeds),
        "GD, a rate for each step": constant(each[-1], seeds),
        "Bayes": constant(bayes, seeds),
    }
    for name, curves in given.items():
        label, look = _LOOKS[name]
        panel[label] = plots.Line(layers, *over_seeds(curves), **look)
        values[f"{name}: after one layer"] = curves[:, 1]
        values[f"{name}: after the last layer"] = curves[:, -1]
        values[f"{name}: last layer ÷ Bayes"] = curves[:, -1] / bayes
    x = "GD Steps / Transformer Layers"
    return Measured(values, plots.lines({"": panel}, x=x, y="Loss", scale="log"))


_NAMES = ("every", "final", "tied")
_DEEP = {
    **rows_of(
        LOSS,
        (
            *("GD: as many steps", "GD, a rate for each step", "Bayes"),
            *(f"{name}: after one layer" for name in _NAMES),
            *(f"{name}: after the last layer" for name in _NAMES),
        ),
    ),
    **rows_of(RATIO, [f"{name}: last layer ÷ Bayes" for name in _NAMES]),
}

FIGURES = (
    Figure(
        "gd/compare_gd_vs_transformer",
        "one layer, applied again and again, follows descent",
        "arXiv 2212.07677 and its public code: one layer, rolled out with λ = .75",
        cost="60 min",
        about="the median loss over 10,000 tasks after k layers, beside k steps",
        study="order",
        runs={"lsa-1": "lsa-1-seed-{seed}"},
        measure=_rolled,
        rows=_ROLLED,
        claims=where_escaped(
            "lsa-1",
            Within("median after 1 ÷ GD's", low=0.97, high=1.03),
            Within("median after 10 ÷ GD's", low=0.9, high=1.1),
            # Near overlap, where the loss has fallen by a factor of about a hundred.
            Within("median after 50 ÷ GD's", low=0.8, high=1.25),
        ),
        fresh=ORDER_SEEDS,
    ),
    Figure(
        "gd/depth",
        "a deep transformer, read after each layer, beside as many steps of descent",
        "the plan of a layer-by-layer study; not in the paper",
        cost="2 h",
        about="the loss after each layer, beside as many steps of descent",
        study="layerwise",
        runs=_RUNS,
        measure=_deep,
        rows=_DEEP,
        claims=(
            # A deep transformer has less loss than as many steps of plain descent.
            Exceeds("GD: as many steps", "final: after the last layer", 0.0),
            # Trained in the last layer only, early layers cannot be read.
            Exceeds("final: after one layer", "every: after one layer", 0.0),
        ),
        fresh=SEEDS,
    ),
)
