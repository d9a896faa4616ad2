"""What figures of this study share."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from icl import plots

from ....figures import QUOTIENT, Runs, Unit, WithinFactor
from ..analysis import drawable
from ..runs import LONGER


CODE = "limits_of_icl, and Garg et al. 2022 (arXiv 2208.01066)"
# One seed, and another number of components: the order of magnitude is what agrees.
ERROR = Unit("÷ predicting 0", WithinFactor(2.0), low=0.0)
RATIO = QUOTIENT
ERROR_LABEL = "squared error ÷ mean square of f"

FULL = ("softmax", "multi-query")
"""The published kinds with a softmax over all tokens."""
NO_SOFTMAX = ("rela", "favor-published", "rebased-published")
"""The published kinds without one, with the published formulas."""

ON_LONGER: dict[str, Any] = {
    "study": "attention",
    "runs": {
        kind: f"{kind}-longer-seed-{{seed}} | {kind}-seed-{{seed}}" for kind in LONGER
    },
    "targets_at": "paper",
}
"""The published kinds, trained for as long as a scale allows."""

BASELINE_LOOKS: tuple[dict[str, Any], ...] = (
    {"colour": "0.5", "width": 2.5},
    {"colour": "0.55", "dashed": True},
    {"colour": "0.7", "dashed": True},
)


def of(kinds: Iterable[str], what: str) -> tuple[str, ...]:
    """The rows of some kinds."""
    return tuple(f"{kind}: {what}" for kind in kinds)


def some(runs: Runs) -> Path:
    """The folder of one run."""
    return next(folder for folders in runs.folders.values() for folder in folders)


def banded(x: np.ndarray, found: tuple[np.ndarray, ...]) -> plots.Line:
    """A mean over seeds with its interval, from `mean_of_seeds`, of the first set."""
    mean, low, high = (drawable(each[0]) for each in found)
    return plots.Line(x, mean, low, high)
