"""Figures of the likelihood-ratio paper (arXiv 2603.10573).

Its numbers are from its public repository, whose results are of 16 components. At scale
`small` we have 4, so accuracies are compared as shares of the exact Bayes predictor's.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

import icl
from icl.measures.discrimination import (
    exchanged_patching,
    lens_correlation,
    probe,
    steering,
)
from icl.measures.kernel_fit import bayes_kernel_fit, kernel_fit
from icl.measures.label_directions import ov_alignment, ov_alignment_p

from ...figures import (
    ACCURACY,
    by_seed,
    CORRELATION,
    crossings,
    curves,
    dotted,
    Exceeds,
    Figure,
    Measured,
    NATS,
    NUMBER,
    Row,
    rows_of,
    Runs,
    SEQUENCES,
    SHARE,
    Times,
    Within,
)
from .analysis import against_bayes, share_of_bayes, wide_shift
from .runs import ABLATIONS, AT_CHANCE, SEEDS


_PAPER = "arXiv 2603.10573 and its public repository"
_NAN = math.nan
_BASE, _OTHER = "shifted-mean", "variance"
_EVERY = (_BASE, *ABLATIONS, *(f"{name}-longer" for name in AT_CHANCE))
_LEFT = math.log(2) - 0.02
"""A loss below it has left the plateau at ln 2, where the logit is 0."""


def _runs(names: Iterable[str]) -> dict[str, str]:
    return {name: f"{name}-seed-{{seed}}" for name in names}


# Ablations


def _ablations(runs: Runs) -> Measured:
    values = {
        name: np.array([share_of_bayes(folder, _set(name)) for folder in folders])
        for name, folders in runs.folders.items()
    }
    label = "accuracy above chance,\nas a share of the exact Bayes predictor's"
    return Measured(values, dotted(values, rows_of(SHARE, _SHARES), label))


def _set(name: str) -> str:
    """The paper evaluates models that were trained on wrong labels with right ones."""
    return "unchanged" if name.startswith("noise") else "train"


def _share(accuracy: float) -> float:
    return (accuracy - 0.5) / (0.787 - 0.5)


_SHARES = {
    _BASE: _share(0.783),
    "no-positions": _share(0.782),
    "frozen-positions": _share(0.781),
    "shuffled-pairs": _share(0.780),
    "longer-context": _NAN,  # Theirs was not longer.
    **dict.fromkeys(("interleaved", "no-labels", "shuffled-labels"), 0.0),
    **dict.fromkeys(("frozen-qk", "frozen-attention"), 0.0),
    "noise-0.1": _share(0.70),
    "noise-0.2": _share(0.53),
    "noise-0.4": 0.0,
    **dict.fromkeys((f"{name}-longer" for name in AT_CHANCE), _NAN),
}


def _escapes(runs: Runs) -> Measured:
    values = crossings(curves(runs), _LEFT)
    label = "sequences seen until the loss\nfalls .02 nats below ln 2"
    return Measured(values, dotted(values, rows_of(SEQUENCES, _EVERY), label))


# The models that learnt


def _bayes(runs: Runs) -> Measured:
    base, other = runs.folders[_BASE], runs.folders.get(_OTHER, ())
    wide = lambda folder: against_bayes(folder, wide_shift(folder))
    found = {"A": by_seed(base, against_bayes), "A wide": by_seed(base, wide)}
    if other:
        found["B"] = by_seed(other, against_bayes)
    values = {
        f"{k}: {what}": x for k, each in found.items() for what, x in each.items()
    }
    for task in found:
        gap = values[f"{task}: accuracy"] - values[f"{task}: Bayes accuracy"]
        values[f"{task}: accuracy minus Bayes"] = gap
    values = {name: values[name] for name in _BAYES if name in values}
    shown = {k: v for k, v in values.items() if "minus" not in k and "slope" not in k}
    label = "accuracy, correlation, or nats"
    return Measured(values, dotted(shown, _BAYES, label))


_MEASURES: Mapping[str, Callable[[], icl.measures.AnyMeasure]] = {
    "lens": lens_correlation,
    "probe": probe,
    "probe mean": lambda: probe("mean"),
    "along mean": steering,
    "all along shift": lambda: steering("shift", "all"),
    "patched": exchanged_patching,
    "ov": ov_alignment,
    "ov p": ov_alignment_p,
    "kernel": kernel_fit,
    "kernel of Bayes": bayes_kernel_fit,
    "centred": lambda: kernel_fit("bilinear", "context"),
    "centred of Bayes": lambda: bayes_kernel_fit("bilinear", "context"),
}


def _mechanism(runs: Runs) -> Measured:
    values = by_seed(runs.folders[_BASE], _read)
    label = "correlation, share, cosine or ratio"
    return Measured(values, dotted(values, _MECHANISM, label))


def _read(folder: Path) -> dict[str, float]:
    measures = {name: make() for name, make in _MEASURES.items()}
    replay = icl.replay(folder, measures, checkpoints=[-1])
    found = {name: replay[name][0] for name in measures}
    aligned = np.abs(found["ov"][-1])
    best = int(np.nanargmax(aligned))
    along, bayes_along = found["along mean"]
    return {
        "read-out after layer 0": found["lens"][1],
        "read-out after the last layer": found["lens"][-1],
        "probe of the embedded query": found["probe"][0],
        "probe after layer 0": found["probe"][1],
        "probe after the last layer": found["probe"][-1],
        "carried by heads of the last layer": np.nansum(found["patched"][-1]),
        "carried by heads of layer 0": np.nansum(found["patched"][0]),
        "query moved along the mean: ours ÷ Bayes": along / bayes_along,
        "all moved along the shift: ours ÷ mean": found["all along shift"][0] / along,
        "largest |cosine| of labels, last layer": aligned[best],
        "its p value": found["ov p"][-1][best],
        "published kernel": found["kernel"],
        "published kernel, Bayes": found["kernel of Bayes"],
        "fitted, centred kernel": found["centred"],
        "fitted, centred kernel, Bayes": found["centred of Bayes"],
    }


_BAYES: dict[str, Row] = {
    **rows_of(ACCURACY, {"A: accuracy": 0.783, "A: Bayes accuracy": 0.787}),
    **rows_of(NUMBER, {"A: accuracy minus Bayes": -0.004}),
    **rows_of(NATS, ["A: regret"]),
    **rows_of(NUMBER, ["A: slope"]),
    **rows_of(CORRELATION, ("A: r with Bayes", "A: ρ with Bayes")),
    **rows_of(CORRELATION, {"A: r with LLR": 0.859, "A: ρ with LLR": 0.862}),
    **rows_of(ACCURACY, {"A wide: accuracy": 0.647, "A wide: Bayes accuracy": 0.788}),
    **rows_of(CORRELATION, {"A wide: r with Bayes": _NAN, "A wide: r with LLR": 0.567}),
    **rows_of(ACCURACY, {"B: accuracy": 0.830, "B: Bayes accuracy": 0.836}),
    **rows_of(NUMBER, {"B: accuracy minus Bayes": -0.006}),
    **rows_of(NATS, ["B: regret"]),
    **rows_of(NUMBER, ["B: slope"]),
    **rows_of(CORRELATION, ("B: r with Bayes", "B: ρ with Bayes")),
    **rows_of(CORRELATION, {"B: r with LLR": 0.597, "B: ρ with LLR": 0.976}),
}

_MECHANISM: dict[str, Row] = {
    **rows_of(
        CORRELATION,
        {"read-out after layer 0": 0.26, "read-out after the last layer": 0.87},
    ),
    **rows_of(
        CORRELATION,
        (
            "probe of the embedded query",
            "probe after layer 0",
            "probe after the last layer",
        ),
    ),
    **rows_of(
        SHARE,
        (
            "carried by heads of the last layer",
            "carried by heads of layer 0",
            "query moved along the mean: ours ÷ Bayes",
            "all moved along the shift: ours ÷ mean",
        ),
    ),
    **rows_of(CORRELATION, {"largest |cosine| of labels, last layer": 0.83}),
    **rows_of(CORRELATION, ["its p value"]),
    **rows_of(
        CORRELATION,
        {"published kernel": 0.314, "published kernel, Bayes": 0.298},
    ),
    **rows_of(CORRELATION, ("fitted, centred kernel", "fitted, centred kernel, Bayes")),
}

# The claims were written after pilot runs with seed 5 at `small`, and are judged on
# other seeds. At chance is within a tenth of the Bayes predictor's share.
_CONTROLS = ("no-positions", "frozen-positions", "shuffled-pairs")
FIGURES = (
    Figure(
        "likelihood-ratio/ablations",
        "what the model needs to discriminate: labels, positions, trained attention",
        f"{_PAPER}: accuracies of the ablations",
        cost="60 min",
        about="accuracy above chance at the end, divided by the Bayes predictor's",
        study="likelihood_ratio",
        runs=_runs(_EVERY),
        measure=_ablations,
        rows=rows_of(SHARE, _SHARES),
        claims=(
            *(Within(name, low=0.9) for name in (_BASE, *_CONTROLS)),
            *(
                Within(name, low=-0.1, high=0.1)
                for name in ("no-labels", "shuffled-labels", "shuffled-labels-longer")
            ),
            *(
                Within(name, high=0.1)
                for name in ("interleaved", "frozen-qk", "frozen-attention")
            ),
            Within("noise-0.2", high=0.2),
            Within("noise-0.4", high=0.1),
            # Whether those at chance only need more steps.
            *(
                Within(f"{name}-longer", high=0.1)
                for name in ("interleaved", "frozen-qk", "frozen-attention")
            ),
        ),
        fresh=SEEDS,
    ),
    Figure(
        "likelihood-ratio/escape",
        "when each model leaves the plateau where it knows nothing",
        f"not in {_PAPER}, where it takes 6 to 11 of 20 epochs",
        cost="60 min",
        about="sequences seen until the loss is .02 nats below ln 2",
        study="likelihood_ratio",
        runs=_runs(_EVERY),
        measure=_escapes,
        rows=rows_of(SEQUENCES, _EVERY),
        claims=(
            Times("frozen-attention", _BASE, 1.5),
            Times("interleaved-longer", _BASE, 3.0),
            Times("noise-0.4-longer", _BASE, 1.5),
        ),
        fresh=SEEDS,
    ),
    Figure(
        "likelihood-ratio/bayes",
        "the logit is near the exact Bayes log-odds, not the log-likelihood ratio",
        f"{_PAPER}: accuracies and correlations; Bayes is ours",
        cost="15 min",
        about="20,000 new sequences; A is the shifted mean, wide has a wider shift",
        study="likelihood_ratio",
        runs=_runs((_BASE, _OTHER)),
        measure=_bayes,
        rows=_BAYES,
        claims=(
            Within("A: accuracy minus Bayes", low=-0.01, high=0.01),
            Within("B: accuracy minus Bayes", low=-0.01, high=0.01),
            Exceeds("A: r with Bayes", "A: r with LLR", 0.02),
            Within("A: r with Bayes", low=0.95),
            # The Bayes predictor stays as good when the shift is wider.
            Exceeds("A wide: Bayes accuracy", "A wide: accuracy", 0.01),
        ),
        fresh=SEEDS,
    ),
    Figure(
        "likelihood-ratio/mechanism",
        "whether the model computes the Bayes statistic, and which heads carry it",
        f"{_PAPER}: logit lens, OV alignment and kernel regression on task A",
        cost="15 min",
        about="of the final model, on the evaluation set",
        study="likelihood_ratio",
        runs=_runs((_BASE,)),
        measure=_mechanism,
        rows=_MECHANISM,
        claims=(
            Exceeds("read-out after the last layer", "read-out after layer 0", 0.3),
            Within("carried by heads of the last layer", low=0.5),
            Within("carried by heads of layer 0", high=0.3),
            Within("query moved along the mean: ours ÷ Bayes", low=0.7, high=1.3),
            Within("all moved along the shift: ours ÷ mean", low=-0.1, high=0.1),
            Within("its p value", high=0.01),
            # A Bayes-optimal model shows what kernel regression shows, no more.
            Within("fitted, centred kernel", low=0.8),
        ),
        fresh=SEEDS,
    ),
)
