"""Layers beside steps of gradient descent."""

from typing import Any

import numpy as np

from icl import plots

from ....figures import Exceeds, Figure, Measured, rows_of, Runs, Within
from .. import analysis
from ..layerwise.runs import SEEDS
from ._common import (
    constant,
    DESCENT,
    GREEN,
    GREY,
    LOSS,
    over_seeds,
    PURPLE,
    RATIO,
)


_RUNS = {
    "rolled": "rolled-seed-{seed}",
    "final": "final-24-seed-{seed} | final-8-seed-{seed} | final-2-seed-{seed}",
    "every": "every-24-seed-{seed} | every-8-seed-{seed} | every-2-seed-{seed}",
    "tied": "tied-24-seed-{seed} | tied-8-seed-{seed} | tied-2-seed-{seed}",
}
_LOOKS: dict[str, tuple[str, dict[str, Any]]] = {
    "every": ("Trained Transformer", {"colour": PURPLE, "marker": "+"}),
    "final": ("trained in the last layer only", {"colour": "#c77cff", "dashed": True}),
    "tied": ("tied layers", {"colour": "#e07b39", "dashed": True}),
}
_AT = (1, 10, 50)
"""The steps of the roll-out whose numbers are in the table."""


def _measured(runs: Runs) -> Measured:
    rolled, panel = _rolled(runs)
    deep, other = _deep(runs)
    figure = plots.lines(
        {"one layer, applied again and again (median)": panel, "a deep model": other},
        x="GD Steps / Transformer Layers",
        y="Loss",
        scale="log",
    )
    return Measured({k: (rolled | deep)[k] for k in _ROWS}, figure)


def _rolled(runs: Runs) -> tuple[dict[str, np.ndarray], dict[str, plots.Line]]:
    folders = runs.folders["rolled"]
    found = np.array([analysis.rolled_out(folder) for folder in folders])
    descent = analysis.descent_rolled_out(analysis.task_of(folders[0]))
    steps = np.arange(len(descent))
    ours, gd = found[..., 1], descent[:, 1]  # The medians.
    values = {f"rolled: median after {k} ÷ GD's": ours[:, k] / gd[k] for k in _AT}
    values |= {
        "rolled: diverged at the end": found[:, -1, 4],
        "GD: diverged at the end": constant(descent[-1, 4], ours),
        "rolled: mean at the end": found[:, -1, 0],
    }
    return values, {
        "Gradient descent": plots.Line(steps, gd, **DESCENT),
        "Trained Transformer": plots.Line(
            steps, *over_seeds(ours), colour=PURPLE, marker="+"
        ),
    }


def _deep(runs: Runs) -> tuple[dict[str, np.ndarray], dict[str, plots.Line]]:
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
    return values, panel


_NAMES = ("every", "final", "tied")
_ROWS = {
    **rows_of(RATIO, {f"rolled: median after {k} ÷ GD's": 1.0 for k in _AT}),
    **rows_of(RATIO, ("rolled: diverged at the end", "GD: diverged at the end")),
    **rows_of(
        LOSS,
        (
            *("rolled: mean at the end", "GD: as many steps"),
            *("GD, a rate for each step", "Bayes"),
            *(f"{name}: after one layer" for name in _NAMES),
            *(f"{name}: after the last layer" for name in _NAMES),
        ),
    ),
    **rows_of(RATIO, [f"{name}: last layer ÷ Bayes" for name in _NAMES]),
}

FIGURES = (
    Figure(
        "gd/compare_gd_vs_transformer",
        "one layer rolled out follows descent; a deep transformer does not",
        "arXiv 2212.07677 and its public code: one layer, rolled out with λ = .75",
        cost="20 min",
        about="the loss after each layer, beside as many steps of descent",
        study="layerwise",
        runs=_RUNS,
        measure=_measured,
        rows=_ROWS,
        claims=(
            Within("rolled: median after 1 ÷ GD's", low=0.97, high=1.03),
            Within("rolled: median after 10 ÷ GD's", low=0.9, high=1.1),
            # A deep transformer has less loss than as many steps of plain descent.
            Exceeds("GD: as many steps", "final: after the last layer", 0.0),
            # Trained in the last layer only, early layers cannot be read.
            Exceeds("final: after one layer", "every: after one layer", 0.0),
        ),
        fresh=SEEDS,
    ),
)
