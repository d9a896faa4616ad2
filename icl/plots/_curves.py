"""Loss and accuracy against sequences seen."""

from collections.abc import Mapping

import numpy as np

from ._drawn import DrawnFigure
from ._interval import Interval
from ._panels import draw, Limits, Look, named_level, Panel


def learning_curves(
    sequences: np.ndarray,
    losses: Mapping[str, np.ndarray],
    accuracies: Mapping[str, np.ndarray] | None = None,
    *,
    loss_label: str = "loss (nats)",
    accuracy_label: str = "accuracy among labels in context",
    threshold_unit: str = "nats",
    trace: str = "seed",
    band: Interval | None = None,
    phase_change: float | None = None,
    threshold: float | None = None,
) -> DrawnFigure:
    """Draws loss and accuracy over training, with one line for each evaluation set.

    **Arguments:**

    - `sequences`: Sequences seen, `[event]`.
    - `losses`, `accuracies`: The values of each set, `[event]`, or `[event, trace]` for
        several seeds, with their mean drawn on top. Accuracies are in [0, 1].
    - `loss_label`, `accuracy_label`: What they are, with their units.
    - `threshold_unit`: The unit of the threshold.
    - `trace`: What one trace is, in the singular.
    - `band`: What to draw around each mean, such as `Confidence(0.95)` over seeds.
    - `phase_change`: Where to draw a vertical line, in sequences seen.
    - `threshold`: Where to draw a horizontal line on the loss.
    """
    level = None if threshold is None else named_level(threshold, threshold_unit)
    panels = [_panel(losses, "loss", loss_label, (0, None), level)]
    if accuracies:
        panels.append(_panel(accuracies, "accuracy", accuracy_label, (0, 1.02), None))
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
