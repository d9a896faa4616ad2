"""The toy model of the coopetition paper, figure 5."""

import math

import numpy as np

from icl import plots, toys

from ....figures import Figure, Measured, NATS, rows_of, Runs, Same, STEPS
from ._common import PAPER


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
        "coopetition/5",
        "a toy of two mechanisms that share vectors: one gives way to the other",
        f"{PAPER}, figure 5 (seed 7); targets are from its public code",
        cost="30 s",
        about="gradient steps until the loss is 1e-6; steps and losses of seed 7",
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
