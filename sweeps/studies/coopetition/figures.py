"""Figures of Singh et al. 2025, "Strategy coopetition explains the emergence and
transience of in-context learning" (arXiv 2503.05631)."""

import math

import numpy as np

from icl import plots, toys

from ...figures import Figure, Measured, NATS, rows_of, Runs, Same, STEPS
from .._transience import comes_and_goes, rows, TRANSIENT


_PAPER = "Singh et al. 2025, arXiv 2503.05631"
_STEPS = {0: 8834, 1: 14482, 2: math.inf, 3: 6138, 7: 9620}


def _two_mechanisms(runs: Runs) -> Measured:
    study = toys.coopetition()
    traces = {seed: toys.run(study, seed)["none"] for seed in _STEPS}
    most = study.descent.steps
    stops = {
        f"seed {seed}": int(trace.stop) if trace.stop < most else math.inf
        for seed, trace in traces.items()
    }
    chosen = traces[7]
    parts = {
        name: np.asarray(chosen.measures[name])
        for name in ("mechanism 1", "mechanism 2", "cost")
    }
    total, second = np.asarray(chosen.losses), parts["mechanism 2"]
    plateau = toys.plateau(total)
    low, high = toys.rise(second)
    values = {
        **stops,
        "plateau": plateau,
        "divot low": low,
        "divot high": high,
        "loss at the low": second[low],
        "loss at the high": second[high],
    }
    figure = plots.two_mechanisms(
        {"total": total, **parts},
        total="total",
        plateau=plateau,
        divot=("mechanism 2", low, high),
    )
    return Measured({k: np.array([v], float) for k, v in values.items()}, figure)


FIGURES = (
    Figure(
        "coopetition/1b",
        "learning in context appears and is given up for what is in weights",
        f"{_PAPER}, figure 1b: 12,800 classes, rate 1e-5, 64 million sequences",
        cost="20 min",
        about="accuracy among labels in context, and sequences seen",
        study="coopetition",
        runs={"main": "main"},
        measure=comes_and_goes,
        # The end on icl is that at 20 million sequences; at 320 it is .466.
        rows=rows((0.713, 0.0146, 0.89, 0.60, 0.987), (3.3e6, 4.28e6, 6.3e6)),
        claims=TRANSIENT,
    ),
    Figure(
        "coopetition/5",
        "a toy of two mechanisms that share vectors: one gives way to the other",
        f"{_PAPER}, figure 5 (seed 7); targets are of its public code",
        cost="30 s",
        about="gradient steps until the loss is 1e-6, and of seed 7 steps and losses",
        measure=_two_mechanisms,
        rows={
            **rows_of(
                STEPS,
                {
                    **{f"seed {seed}": float(steps) for seed, steps in _STEPS.items()},
                    "divot low": 4628,
                    "divot high": 4808,
                },
            ),
            **rows_of(
                NATS,
                {
                    "plateau": 0.105,
                    "loss at the low": 0.309,
                    "loss at the high": 0.320,
                },
            ),
        },
        claims=(
            Same(tuple(f"seed {seed}" for seed in _STEPS)),
            Same(("divot low", "divot high")),
            Same(("plateau", "loss at the low", "loss at the high"), tolerance=0.005),
        ),
    ),
)
