"""Loss and accuracy against sequences seen."""

from collections.abc import Mapping

import numpy as np

from ._drawn import DrawnFigure
from ._interval import Interval
from ._panels import draw, Limits, Look, Panel


def learning_curves(
    sequences: np.ndarray,
    losses: Mapping[str, np.ndarray],
    accuracies: Mapping[str, np.ndarray],
    *,
    trace: str = "seed",
    band: Interval | None = None,
    phase_change: float | None = None,
    threshold: float | None = None,
) -> DrawnFigure:
    """Loss and in-context accuracy over training, one line for each evaluation set.

    **Arguments:**

    - `sequences`: Sequences seen, `[event]`.
    - `losses`, `accuracies`: Of each set, `[event]`, or `[event, trace]` for several
        seeds, whose mean is drawn over them; nats, and in [0, 1].
    - `trace`: What one trace is, in the singular.
    - `band`: Around each mean, such as `Confidence(0.95)` over seeds.
    - `phase_change`: Where to draw a vertical line, in sequences seen.
    - `threshold`: Where to draw a horizontal line on the loss, in nats.
    """
    level = None if threshold is None else (threshold, f"{threshold:.3f} nats")
    label = "accuracy among labels in context"
    panels = [
        _panel(losses, "loss", "loss (nats)", (0, None), level),
        _panel(accuracies, "accuracy", label, (0, 1.02), None),
    ]
    look = Look(by="evaluation set", trace=trace, band=band, phase_change=phase_change)
    return draw(sequences, panels, look)


def _panel(
    by_set: Mapping[str, np.ndarray],
    name: str,
    label: str,
    limits: Limits,
    threshold: tuple[float, str] | None,
) -> Panel:
    arrays = {key: np.asarray(values) for key, values in by_set.items()}
    columns = [x[:, None] if x.ndim == 1 else x for x in arrays.values()]
    groups = [
        key.replace("_", " ")
        for key, values in zip(arrays, columns, strict=True)
        for _ in range(values.shape[1])
    ]
    values = np.concatenate(columns, 1)
    return Panel(
        values, np.array(groups), name, label=label, limits=limits, threshold=threshold
    )
