"""What the figures of these studies share."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from ....figures import Claim, Given, Unit, Within, WithinDifference, WithinFactor


PAPER = "arXiv 2212.07677, and numbers computed independently from its definitions"
NAN = math.nan

LOSS = Unit("half squared error", WithinFactor(1.03), low=0.0)
FAR_LOSS = Unit("half squared error", WithinFactor(1.1), low=0.0)
RATIO = Unit("quotient", WithinFactor(1.03), low=0.0)
COSINE = Unit("cosine", WithinDifference(0.01), low=-1.0, high=1.0)
AREA = Unit("AUROC", WithinDifference(0.05), low=0.0, high=1.0)
FRACTION = Unit("share of seeds", WithinDifference(0.25), low=0.0, high=1.0)
PLAIN = Unit("number", WithinDifference(0.01))

GREEN, PURPLE, GREY = "#2a9d3a", "#7b3fa0", "0.5"
"""Gradient descent, trained transformers, and closed forms."""
DESCENT: Mapping[str, Any] = {"colour": "#8ed29a", "width": 5.0}
"""How plain gradient descent looks: wide and pale, as it is often under other lines."""


def over_seeds(
    curves: Float[np.ndarray, "seed point"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The median over seeds, the least and the largest."""
    return np.median(curves, 0), curves.min(0), curves.max(0)


def where_escaped(name: str, *claims: Claim) -> tuple[Claim, ...]:
    """Claims that are judged on the seeds that find descent, by `analysis.ESCAPED`."""
    found = Within(f"{name}: escaped", low=0.5)
    return tuple(Given(found, claim) for claim in claims)


def constant(value: float, like: np.ndarray) -> np.ndarray:
    """A number about all seeds together, as the number of each."""
    return np.full(len(like), value)
