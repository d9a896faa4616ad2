"""Figures of the two papers on transience.

Singh et al. 2025, "Strategy coopetition explains the emergence and transience of
in-context learning" (arXiv 2503.05631), and Singh et al. 2023, "The transient nature of
emergent in-context learning in transformers" (arXiv 2311.08360).
"""

import math

import numpy as np

from icl import plots, toys
from icl.analysis.coopetition import passage

from ._claims import Claim, Same, Together, Within
from ._figure import Figure, Measured, Runs
from ._logged import Curves, curves, has_set


_PAPER = "Singh et al. 2025, arXiv 2503.05631"
_SETS = ("flip", "icl", "ciwl", "train")
_METRIC = "in_context_accuracy"
_TIMES = ("flip first above 0.5", "flip at its peak", "flip last above 0.5")
_HEIGHTS = ("flip peak", "flip end", "icl peak", "ciwl end")


def _transience(runs: Runs) -> Measured:
    """Accuracies by what they take: context, weights, or either."""
    sets = [name for name in _SETS if has_set(runs, name)]
    every = {name: curves(runs, name, _METRIC) for name in sets}
    flip = every["flip"]
    values = {
        "flip peak": _trained(flip).max(0),
        "flip end": flip.values[-1],
        "ciwl end": every["ciwl"].values[-1],
    }
    if "icl" in every:
        values["icl peak"] = _trained(every["icl"]).max(0)
    passages = [passage(flip.sequences, values) for values in flip.values.T]
    # Where it never came, its largest value is noise, and it cannot go.
    times = [
        (p.came_at, math.nan if math.isinf(p.came_at) else p.peak_at, p.gone_at)
        for p in passages
    ]
    values |= dict(zip(_TIMES, np.array(times).T, strict=True))
    return Measured(values, _accuracies(every))


def _trained(found: Curves) -> np.ndarray:
    """Without the first look, before training, which is chance."""
    return found.values[found.sequences > 0]


def _accuracies(every: dict[str, Curves]) -> plots.DrawnFigure:
    first = next(iter(every.values()))
    names = [name for name, found in every.items() for _ in found.labels]
    return plots.traces(
        first.sequences,
        np.concatenate([found.values for found in every.values()], 1),
        groups=np.array(names),
        label="accuracy among labels in context",
        by="evaluation set",
        trace="seed",
        limits=(0, 1.02),
        threshold=0.5,
    )


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


def _transient(seeds: int) -> tuple[Claim, ...]:
    # A low end says nothing of a seed where it never rose.
    comes, goes = Within("flip peak", low=0.6), Within("flip end", high=0.2)
    return Together((comes, goes), seeds=seeds), Within("ciwl end", low=0.9)


FIGURES = (
    Figure(
        "coopetition/1b",
        "learning in context appears and is given up for what is in weights",
        f"{_PAPER}, figure 1b: 12,800 classes, rate 1e-5, 64 million sequences",
        cost="20 min",
        about="accuracy among labels in context, and sequences seen",
        study="coopetition",
        runs={"main": "main"},
        measure=_transience,
        targets={
            **dict(zip(_HEIGHTS, (0.713, 0.0146, 0.89, 0.987), strict=True)),
            **dict(zip(_TIMES, (3.3e6, 4.28e6, 6.3e6), strict=True)),
        },
        claims=_transient(seeds=1),
    ),
    Figure(
        "coopetition/5",
        "a toy of two mechanisms that share vectors: one gives way to the other",
        f"{_PAPER}, figure 5 (seed 7); targets are of its public code",
        cost="30 s",
        about="gradient steps until the loss is 1e-6, and of seed 7 steps and losses",
        measure=_two_mechanisms,
        targets={
            **{f"seed {seed}": float(steps) for seed, steps in _STEPS.items()},
            "plateau": 0.105,
            "divot low": 4628,
            "divot high": 4808,
            "loss at the low": 0.309,
            "loss at the high": 0.320,
        },
        claims=(
            Same(tuple(f"seed {seed}" for seed in _STEPS)),
            Same(("divot low", "divot high")),
            Same(("plateau", "loss at the low", "loss at the high"), tolerance=0.005),
        ),
    ),
    Figure(
        "transience/flip",
        "learning in context is transient: labels exchanged are followed, then not",
        "Singh et al. 2023, arXiv 2311.08360; targets are of another code's one seed, "
        "at scale small on synthetic classes",
        cost="60 min, five seeds",
        about="accuracy among labels in context, and sequences seen",
        study="transience",
        runs={"main": "omniglot-12800*-seed-{seed} | omniglot-64*-seed-{seed}"},
        measure=_transience,
        targets={
            **dict(zip(_HEIGHTS, (0.69, 0.13, 0.93, 0.96), strict=True)),
            **dict(zip(_TIMES, (math.nan, 576e3, 1.4e6), strict=True)),
        },
        claims=_transient(seeds=3),
    ),
)
