"""Figure 6 of the induction-head paper: more classes, and more labels.

Targets are read off the paper's figures to about 2 %; they are for one seed, on
features of Omniglot.
"""

from collections.abc import Mapping

import numpy as np

from icl import plots

from ....analysis import Estimate, HALF
from ....figures import (
    crossings,
    curves,
    Figure,
    Measured,
    Ordering,
    QUOTIENT,
    rows_of,
    Runs,
    SEQUENCES,
    Within,
)
from ._common import REPLICAS, TO_HALF
from ._heads import PAPER


_BASE = "50 classes (5 labels)"
_SIZES = (_BASE, "100 classes", "200 classes", "10 labels", "15 labels")
_TO_LEARN = {"all": "", "part B": "B: ", "part C": "C: ", "parts B, C": "BC: "}
_CLASSES = {50: _SIZES[0], 100: _SIZES[1], 200: _SIZES[2]}
_LABELS = {5: _SIZES[0], 10: _SIZES[3], 15: _SIZES[4]}
# How much later the loss falls with more of them, by what is left to learn.
_SLOWER = {
    "B: 200 ÷ 50 classes": ("B: 200 classes", f"B: {_BASE}"),
    "C: 200 ÷ 50 classes": ("C: 200 classes", f"C: {_BASE}"),
    "C: 15 ÷ 5 labels": ("C: 15 labels", f"C: {_BASE}"),
}


def _sizes(runs: Runs) -> Measured:
    every = {
        label: crossings(curves(Runs({label: folders}, runs.seeds)), HALF)[label]
        for label, folders in runs.folders.items()
    }
    axes = {"classes": _CLASSES, "labels": _LABELS}
    panels = {
        name: {
            part: {
                size: Estimate.of(every[f"{short}{label}"]).value
                for size, label in sizes.items()
                if f"{short}{label}" in every
            }
            for part, short in _TO_LEARN.items()
        }
        for name, sizes in axes.items()
    }
    with np.errstate(invalid="ignore"):  # Unknown if neither got there.
        slower = {
            row: every[more] / every[fewer]
            for row, (more, fewer) in _SLOWER.items()
            if more in every and fewer in every
        }
    figure = plots.learning_times(panels, by="left to learn")
    return Measured({**every, **slower}, figure)


def _size_runs() -> dict[str, str]:
    """The runs of figure 6, by the rows of its table.

    Labels do not enter part B, as its logits are attention to labels: runs with more
    labels would be the same run.
    """
    scaled = {
        "": "",
        "100 classes": "classes-100-",
        "200 classes": "classes-200-",
        "10 labels": "labels-10-",
        "15 labels": "labels-15-",
    }
    clamps = {
        "": "long",
        "B: ": "clamp-layer-0-copy",
        "C: ": "clamp-match",
        "BC: ": "clamp-layer-0",
    }
    return {
        f"{short}{size or _BASE}": f"seed-{{seed}}-{prefix}{run}"
        for short, run in clamps.items()
        for size, prefix in scaled.items()
        if not (short == "B: " and "labels" in size)
    }


def _sized(
    short: str, classes: tuple[float, ...], labels: tuple[float, ...] = ()
) -> dict[str, float]:
    """Targets, given in thousands, for 50, 100, 200 classes and for 10, 15 labels."""
    targets = (*classes, *labels)
    return {f"{short}{s}": 1e3 * t for s, t in zip(_SIZES, targets, strict=False)}


def _descending(short: str, sizes: Mapping[int, str]) -> Ordering:
    return Ordering(tuple(f"{short}{sizes[n]}" for n in sorted(sizes, reverse=True)))


FIGURES = (
    Figure(
        "induction/6",
        "more classes act through subcircuit B, more labels through subcircuit C",
        f"{PAPER}, figure 6",
        cost="25 min",
        about=f"{TO_HALF}, by what is left to learn: all, or only subcircuits",
        runs=_size_runs(),
        measure=_sizes,
        rows={
            **rows_of(
                SEQUENCES,
                {
                    **_sized("", (292, 365, 397), (842, 1380)),
                    **_sized("B: ", (24, 27, 30)),
                    **_sized("C: ", (28.5, 31, 30), (72, 104)),
                    **_sized("BC: ", (71.5, 83, 91), (110, 144)),
                },
            ),
            **rows_of(
                QUOTIENT,
                dict(zip(_SLOWER, (30 / 24, 30 / 28.5, 104 / 28.5), strict=True)),
            ),
        },
        claims=(
            _descending("", _CLASSES),
            _descending("", _LABELS),
            _descending("B: ", _CLASSES),
            # Classes slow B more than C, and labels slow C more than classes do.
            Ordering(("B: 200 ÷ 50 classes", "C: 200 ÷ 50 classes")),
            Within("C: 200 ÷ 50 classes", high=1.15),
            Within("C: 15 ÷ 5 labels", low=2.0),
            _descending("C: ", _LABELS),
            _descending("BC: ", _CLASSES),
            _descending("BC: ", _LABELS),
        ),
        **REPLICAS,
    ),
)
