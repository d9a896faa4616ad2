"""Traces over training in groups: the general figure of curves."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from ._drawn import DrawnFigure
from ._interval import Interval
from ._panels import as_panels, draw, Limits, Look, Panel


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
    """Anything over training: each trace thin, and the mean of each group over them.

    A trace is whatever there are several of: the sequences of a set, the heads of a
    layer, the seeds of a run. NaN and infinite values are left out.

    **Arguments:**

    - `sequences`: Sequences seen, `[checkpoint]`.
    - `values`: `[checkpoint, trace]`, or several by the name of their panel.
    - `groups`: Of each trace, `[trace]`: a label, for a colour (and dashes) and a mean
        of each; or a real number, for a colour map and one mean. Integers are labels,
        unless there are more than can be told apart.
    - `label`: What the values are, with their unit.
    - `by`: What the groups are, `"class pair"`.
    - `trace`: What one trace is, `"sequence"`, in the singular.
    - `band`: Around each mean, such as `Confidence(0.95)` over seeds.
    - `limits`: Of the vertical axis.
    - `threshold`: Where to draw a horizontal line.
    - `phase_change`: Where to draw a vertical line, in sequences seen.
    - `columns`: How many panels beside each other.

    **Returns:**

    A figure whose `drawn` has `traces`, `group`, `mean`, and of a band `low` and
    `high`. Of more than 2000 traces that many are drawn, evenly of each group; means
    and bands are of all.

    **Raises:** `ValueError` for arrays that do not fit together, or more labels than
    can be told apart.
    """
    chosen = None if groups is None else np.asarray(groups)
    level = None if threshold is None else (threshold, f"{threshold:.3g}")
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
    """The bias of each output over training.

    **Arguments:**

    - `sequences`: Sequences seen, `[checkpoint]`.
    - `biases`: Of the unembedding, `[checkpoint, label]`.
    - `groups`, `by`, `phase_change`: As for `traces`; a colour for each label, or a
        colour map over them, if there are none.
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
