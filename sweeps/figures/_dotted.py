"""A figure of a table's rows: a dot for each number."""

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from icl import plots

from ..analysis import Estimate
from ._row import Row


def dotted(
    values: Mapping[str, Float[np.ndarray, " seed"]],
    rows: Mapping[str, Row],
    label: str,
    *,
    known: str = "published",
) -> plots.DrawnFigure:
    """Draws each number's mean over seeds and its interval, beside its target.

    Seeds where the event did not come are left out.

    **Arguments:**

    - `values`: The numbers of all seeds by name, as they are drawn from top to bottom.
    - `rows`: Their targets and units; intervals stay within a unit's bounds.
    - `label`: What the numbers are, with their units.
    - `known`: What the targets are, for the legend.
    """
    ours = {}
    for name, each in values.items():
        there = np.where(np.isinf(each), math.nan, each)
        found = Estimate.of(there, rows[name].unit.bounds)
        ours[name] = (found.value, found.low, found.high)
    targets = {name: rows[name].target for name in values}
    groups = {"ours": ours}
    if not all(map(math.isnan, targets.values())):
        groups = {known: targets, **groups}
    return plots.intervals(groups, label=label)
