"""Numbers for each head over training."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from ..checks import check_axes
from ._drawn import DrawnFigure, joined
from ._interval import Interval
from ._panels import as_panels, draw, Limits, Look, Panel


def head_strengths(
    sequences: np.ndarray,
    strengths: Mapping[str, np.ndarray],
    *,
    trace: str = "seed",
    band: Interval | None = None,
    phase_change: float | None = None,
) -> DrawnFigure:
    """Draws the strength of each head over training, with one panel for each array.

    **Arguments:**

    - `sequences`: Sequences seen, `[checkpoint]`.
    - `strengths`: By the label of a panel's vertical axis, `[checkpoint, head]` or
        `[checkpoint, head, trace]`.
    - `trace`, `band`: As for `traces`.
    - `phase_change`: Where to draw a vertical line, in sequences seen.
    """
    panels = [
        Panel(*_by_head(np.asarray(values)), label, label=label)
        for label, values in strengths.items()
    ]
    look = Look(by="head", trace=trace, band=band, phase_change=phase_change)
    return draw(sequences, panels, look)


def average_strength(
    sequences: np.ndarray,
    strengths: np.ndarray,
    *,
    label: str = "induction strength",
    by: str = "layer",
    band: Interval | None = None,
    phase_change: float | None = None,
) -> DrawnFigure:
    """Draws the mean strength of each layer's heads, on top of the single heads.

    **Arguments:**

    - `sequences`: Sequences seen, `[checkpoint]`.
    - `strengths`: `[checkpoint, layer, head]`; NaN where a layer has fewer heads.
    - `label`, `band`, `phase_change`: As for `traces`.
    - `by`: What the second axis of `strengths` is, if not layers.
    """
    strengths = np.asarray(strengths)
    check_axes(strengths=(strengths, "checkpoint layer head"))
    there = ~np.isnan(strengths).all(0)
    groups = np.nonzero(there)[0]
    panel = Panel(strengths[:, there], groups, label=label)
    look = Look(by=by, trace="head", band=band, phase_change=phase_change)
    return draw(sequences, [panel], look)


def heads_over_time(
    sequences: np.ndarray,
    values: np.ndarray | Mapping[str, np.ndarray],
    *,
    groups: ArrayLike | None = None,
    label: str = "attention",
    by: str = "",
    trace: str = "sequence",
    band: Interval | None = None,
    limits: Limits | None = None,
    phase_change: float | None = None,
    seen: str = "sequences seen",
) -> DrawnFigure:
    """Draws a number for each head over training, with a panel for each layer.

    Without groups, each head has a colour. With groups, each head has a panel, in which
    traces are coloured by their group.

    **Arguments:**

    - `sequences`: Sequences seen, `[checkpoint]`.
    - `values`: `[checkpoint, layer, head]`, or `[checkpoint, layer, head, trace]` to
        draw traces under the means; NaN where a layer has fewer heads. Or several such
        arrays by name, with a column of panels for each and a row for each layer.
    - `groups`: `[trace]`, as for `traces`; `values` must then be one array with traces.
    - `label`, `by`, `trace`, `band`, `limits`, `phase_change`, `seen`: As for `traces`.

    **Raises:** `ValueError` for arrays that do not fit together.
    """
    given = as_panels(values)
    for name, array in given.items():
        if array.ndim not in (3, 4):
            wanted = "[checkpoint, layer, head] or [checkpoint, layer, head, trace]"
            got = f"{name} {list(array.shape)}".strip()
            raise ValueError(f"values: wanted {wanted}, got {got}")
    if groups is None:
        panels = _panels_of_layers(given, label, limits)
        columns = len(given) if isinstance(values, Mapping) else 4
        look = Look(columns, "head", trace, band, phase_change, seen=seen)
        return draw(sequences, panels, look)
    (array, *more), panels = given.values(), []
    if more or array.ndim != 4:
        wanted = "one array [checkpoint, layer, head, trace] of values"
        raise ValueError(f"groups: wanted {wanted}, got {list(array.shape)}")
    for layer, head in np.ndindex(array.shape[1:3]):
        found = array[:, layer, head]
        if not np.isnan(found).all():
            name = f"layer {layer}, head {head}"
            own = np.asarray(groups)
            panels.append(Panel(found, own, name, name, label, limits))
    return draw(sequences, panels, Look(4, by, trace, band, phase_change))


def _by_head(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Makes `[checkpoint, head(, trace)]` traces, labelled by their heads."""
    values = values[..., None] if values.ndim == 2 else values
    check_axes(strengths=(values, "checkpoint head trace"))
    there = ~np.isnan(values).all((0, 2))
    flat = values[:, there].reshape(len(values), -1)
    return flat, np.repeat(np.flatnonzero(there), values.shape[2])


def _panels_of_layers(
    given: Mapping[str, np.ndarray], label: str, limits: Limits | None
) -> list[Panel]:
    layers = {array.shape[1] for array in given.values()}
    if len(layers) != 1:
        raise ValueError(
            f"values: arrays must have the same number of layers, got {sorted(layers)}"
        )
    panels = []
    for layer in range(*layers):
        for column, (name, array) in enumerate(given.items()):
            flat, heads = _by_head(array[:, layer])
            title = (name if layer == 0 else "") if name else f"layer {layer}"
            row = f"layer {layer}" if name and column == 0 else ""
            where = joined(name, f"layer {layer}")
            panels.append(Panel(flat, heads, where, title, label, limits, row=row))
    return panels
