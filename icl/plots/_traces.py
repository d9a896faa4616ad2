"""Traces over training, in groups: the general figure of curves."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from ._drawn import DrawnFigure
from ._interval import Interval
from ._panels import as_panels, draw, Limits, Look, named_level, Panel


def traces(
    sequences: np.ndarray,
    values: np.ndarray | Mapping[str, np.ndarray],
    *,
    groups: ArrayLike | None = None,
    label: str = "",
    by: str = "",
    trace: str = "sequence",
    band: Interval | None = None,
    limits: Limits | None = None,
    threshold: float | None = None,
    phase_change: float | None = None,
    columns: int = 4,
) -> DrawnFigure:
    """Draws values over training: thin traces, and the mean of each group on top.

    A trace is one of several curves, such as one sequence of a set, one head of a layer
    or one seed of a run. NaN and infinite values are left out.

    **Arguments:**

    - `sequences`: Sequences seen, `[checkpoint]`.
    - `values`: `[checkpoint, trace]`, or several such arrays by the name of a panel.
    - `groups`: The group of each trace, `[trace]`. With labels, each label has a colour
        (and dashes) and a mean. With real numbers, there is a colour map and one mean.
        Integers are labels, unless there are too many to tell apart.
    - `label`: What the values are, with their unit.
    - `by`: What the groups are, such as `"class pair"`.
    - `trace`: What one trace is, such as `"sequence"`, in the singular.
    - `band`: What to draw around each mean, such as `Confidence(0.95)` over seeds.
    - `limits`: The limits of the vertical axis.
    - `threshold`: Where to draw a horizontal line.
    - `phase_change`: Where to draw a vertical line, in sequences seen.
    - `columns`: The number of panels side by side.

    **Returns:**

    A figure whose `drawn` has `traces`, `group` and `mean`, and with a band also `low`
    and `high`. At most 2000 traces are drawn, chosen evenly from each group; means and
    bands use all traces.

    **Raises:** `ValueError` for arrays that do not fit together, or more labels than
    can be told apart.
    """
    chosen = None if groups is None else np.asarray(groups)
    level = None if threshold is None else named_level(threshold)
    panels = [
        Panel(array, chosen, name, name, label, limits, level)
        for name, array in as_panels(values).items()
    ]
    look = Look(columns, by, trace, band, phase_change)
    return draw(sequences, panels, look)


def output_biases(
    sequences: np.ndarray,
    biases: np.ndarray,
    *,
    groups: ArrayLike | None = None,
    by: str = "label",
    phase_change: float | None = None,
) -> DrawnFigure:
    """Draws the bias of each output over training.

    **Arguments:**

    - `sequences`: Sequences seen, `[checkpoint]`.
    - `biases`: The biases of the unembedding, `[checkpoint, label]`.
    - `groups`, `by`, `phase_change`: As for `traces`. Without groups, each label has a
        colour, or a place on a colour map if there are too many labels.
    """
    return traces(
        sequences,
        biases,
        groups=np.arange(np.shape(biases)[-1]) if groups is None else groups,
        label="output bias (nats)",
        by=by,
        trace="label",
        phase_change=phase_change,
    )
