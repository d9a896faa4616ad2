"""Chains of the local learning coefficient for a grid of settings, to choose from."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import measures, plots
from ..plots import DrawnFigure
from .subject import Subject


def llc_grid(
    subject: Subject,
    step_sizes: Sequence[float],
    localizations: Sequence[float],
    *,
    steps: int = 300,
    chains: int = 4,
    **settings: Any,
) -> DrawnFigure:
    r"""Draws, for each pair of settings, the estimate along the chains.

    The estimate after $t$ steps is $n\beta$ times the mean of the losses so far, less
    the loss at the centre. A good pair has chains that agree and have become level.

    **Arguments:**

    - `subject`: A run, its sequences and edits; its `checkpoint` is looked at.
    - `step_sizes`, `localizations`: The rows and columns of the grid.
    - `steps`, `chains`, `settings`: As for `measures.llc_trace`.

    **Raises:** `ValueError` as `measures.llc_trace`, and for an empty grid.
    """
    if not step_sizes or not localizations:
        raise ValueError("llc_grid needs at least one step size and localization")
    names = [(e, g) for e in step_sizes for g in localizations]
    asked = {
        f"{k}": measures.llc_trace(
            steps, chains, step_size=e, localization=g, **settings
        )
        for k, (e, g) in enumerate(names)
    }
    found = subject.replay(asked, checkpoints=[subject.checkpoint])
    panels = {}
    for k, (step_size, localization) in enumerate(names):
        panels[f"ε={step_size:g}, γ={localization:g}"] = {
            f"chain {chain}": plots.Line(np.arange(1, steps + 1), each)
            for chain, each in enumerate(_running(subject, found[str(k)][0]))
        }
    label = "local learning\ncoefficient so far"
    return plots.lines(panels, x="steps", y=label, columns=len(localizations))


def _running(subject: Subject, losses: np.ndarray) -> np.ndarray:
    """The estimates `[chain, step]` from the losses of all steps so far."""
    losses = losses.astype(np.float64)
    steps = np.arange(1, losses.shape[1])
    means = losses[:, 1:].cumsum(1) / steps
    return measures.llc_scale(subject.batch) * (means - losses[:, :1])
