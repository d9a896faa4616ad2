"""The figures of the study: loss and local learning coefficient over training."""

from collections.abc import Mapping

import numpy as np

from icl import plots

from ...analysis import HALF, logged_curve
from ...figures import (
    by_seed,
    Exceeds,
    Figure,
    Measured,
    QUOTIENT,
    rows_of,
    Runs,
    SEQUENCES,
    SHARE,
    Times,
    Together,
    Unit,
    Within,
    WithinFactor,
)
from . import analysis
from .analysis import Developed
from .runs import SEEDS


_LLC = Unit("learning coefficient", WithinFactor(1.25))
_LOSS = Unit("loss", WithinFactor(1.1), low=0.0)
_SHARE = "share of three components"
_X = "log₁₀ of sequences seen"


def _regression(runs: Runs) -> Measured:
    folders = runs.folders["regression"]
    found = [analysis.developed(folder) for folder in folders]
    values = by_seed(found, analysis.risen_and_fallen)
    shares = [analysis.essential(folder).shares.sum() for folder in folders]
    values[_SHARE] = np.array(shares)
    panels = {
        "loss (squared error)": _lines(runs, found, lambda each: each.loss),
        "local learning coefficient": _lines(
            runs, found, lambda each: analysis.smooth(each.coefficients["all"])
        ),
    }
    return Measured(values, plots.lines(panels, x=_X, y=""))


def _induction(runs: Runs) -> Measured:
    folders = runs.folders["induction"]
    found = [
        analysis.developed(folder, analysis.LAYERS, analysis.GENTLE)
        for folder in folders
    ]
    values = by_seed(found, lambda each: analysis.across_change(each, HALF))
    panels = {"loss (nats)": _lines(runs, found, lambda each: each.loss)}
    for name in analysis.LAYERS:
        title = f"coefficient of {'all weights' if name == 'all' else name}"
        panels[title] = _lines(
            runs, found, lambda each, name=name: each.coefficients[name]
        )
    return Measured(values, plots.lines(panels, x=_X, y="", columns=2))


def _strategies(runs: Runs) -> Measured:
    folders = runs.folders["main"]
    found = [analysis.developed(folder, settings=analysis.FEW) for folder in folders]
    values = by_seed(found, analysis.while_strategies_change)
    logged = [logged_curve(x, "in_context_accuracy", data="flip") for x in folders]
    panels = {
        "loss (nats)": _lines(runs, found, lambda each: each.loss, _millions),
        "local learning coefficient": _lines(
            runs, found, lambda each: each.coefficients["all"], _millions
        ),
        "accuracy on flipped labels": {
            f"seed {seed}": plots.Line(_millions(at[1:]), accuracy[1:])
            for seed, (at, accuracy) in zip(runs.seeds, logged, strict=True)
        },
    }
    return Measured(values, plots.lines(panels, x="10⁶ sequences seen", y=""))


def _millions(seen: np.ndarray) -> np.ndarray:
    return seen / 1e6


def _lines(
    runs: Runs, found: list[Developed], of, along=np.log10
) -> Mapping[str, plots.Line]:
    return {
        f"seed {seed}": plots.Line(along(each.seen), of(each))
        for seed, each in zip(runs.seeds, found, strict=True)
    }


# Written before the runs of these seeds, after a run of seed 0.
FIGURES = (
    Figure(
        "development/regression",
        "the learning coefficient rises as the context is used, and falls later",
        "Hoogland et al. 2024, arXiv 2402.02364, which has 43 times the steps",
        cost="60 min",
        about="loss and local learning coefficient of regression in context",
        study="development",
        runs={"regression": "regression-seed-{seed}"},
        measure=_regression,
        rows={
            **rows_of(_LLC, ("LLC before", "LLC at its peak", "LLC at the end")),
            **rows_of(_LOSS, ("loss at the peak", "loss at the end")),
            **rows_of(QUOTIENT, ["half of the rise ÷ half of the fall"]),
            **rows_of(SHARE, [_SHARE]),
        },
        claims=(
            # While learning in context emerges (stages LR1 and LR2), it rises.
            Exceeds("LLC at its peak", "LLC before", 20.0),
            Within("half of the rise ÷ half of the fall", low=0.3, high=3.0),
            # Then it falls, though the loss falls, too (stages LR3 and LR4).
            Together(
                (
                    Exceeds("LLC at its peak", "LLC at the end", 3.0),
                    Exceeds("loss at the peak", "loss at the end", 0.02),
                )
            ),
            # Few directions have most of the movement of outputs.
            Within(_SHARE, low=0.9),
        ),
        fresh=SEEDS,
    ),
    Figure(
        "development/induction",
        "the learning coefficient across the phase change, whole and by layer",
        "not from a paper: the runs of Singh et al. 2024, arXiv 2404.07129",
        cost="15 min",
        about="local learning coefficient of all weights and of each layer's",
        study="development",
        runs={"induction": "induction-seed-{seed}"},
        measure=_induction,
        rows={
            **rows_of(SEQUENCES, ["change at"]),
            **rows_of(
                _LLC,
                [
                    f"{name}: {when}"
                    for name in analysis.LAYERS
                    for when in ("on the plateau", "at its peak", "at the end")
                ],
            ),
        },
        claims=(
            Times("all: at its peak", "all: on the plateau", 1.5),
            Times("layer 0: at its peak", "layer 0: on the plateau", 1.5),
            # After the change it falls again.
            Exceeds("all: at its peak", "all: at the end", 3.0),
        ),
        fresh=SEEDS,
    ),
    # Written before seeds 21 to 24 were measured; three checkpoints of 20 were seen.
    Figure(
        "development/strategies",
        "the learning coefficient while the preference for the context comes and goes",
        "not from a paper: the runs of Singh et al. 2023, arXiv 2311.08360",
        cost="60 min, and 20 to measure",
        about="local learning coefficient of all weights; accuracy on flipped labels",
        study="transience",
        runs={"main": "classes-12800*-seed-{seed} | classes-64-seed-{seed}"},
        measure=_strategies,
        rows={
            **rows_of(_LLC, ("LLC at its peak", "LLC at the end")),
            **rows_of(QUOTIENT, ["LLC at its peak ÷ at the end"]),
            **rows_of(_LOSS, ("loss at the peak", "loss at the end")),
            **rows_of(SEQUENCES, ["peak at"]),
        },
        # What the weights do in the end is the simpler of the two strategies.
        claims=(
            Together(
                (
                    Times("LLC at its peak", "LLC at the end", 1.1),
                    Exceeds("loss at the peak", "loss at the end", 0.02),
                )
            ),
        ),
        fresh=(21, 22, 23, 24),
    ),
)
