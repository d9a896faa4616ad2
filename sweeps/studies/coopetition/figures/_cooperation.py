"""Figures 4a to 4c and 6 of the coopetition paper: CIWL helps in-context learning to
emerge, and too much CIWL hinders it."""

import math
from typing import Any

import numpy as np

from ....figures import (
    ACCURACY,
    curves,
    draw_curves,
    Figure,
    Measured,
    NATS,
    Ordering,
    Row,
    rows_of,
    Runs,
    Times,
    Within,
)
from ._common import METRIC, PAPER


def _last(runs: Runs) -> Measured:
    """The loss of the `icl` evaluator, which figures 4a and 4b of the paper show."""
    found = curves(runs, "icl")
    values = {label: each[-1] for label, each in found.by_label.items()}
    label = "loss on icl (nats)"
    return Measured(values, draw_curves(found, label, by="run", trace="run"))


def _peaks(runs: Runs) -> Measured:
    """The largest accuracy on `flip`, from each start."""
    found = curves(runs, "flip", METRIC)
    values = {
        label: np.nanmax(each[found.sequences > 0], axis=0)
        for label, each in found.by_label.items()
    }
    looks: dict[str, Any] = {"by": "run", "trace": "run", "threshold": 0.5}
    return Measured(values, draw_curves(found, "accuracy on flip", **looks))


def _ends(runs: Runs) -> Measured:
    """Whether in-context learning stays if a class is shown as one exemplar."""
    found = {name: curves(runs, name, METRIC) for name in ("matched_flip", "flip")}
    values = {f"{name} at the end": each.values[-1] for name, each in found.items()}
    figure = draw_curves(
        {f"on {name}": each for name, each in found.items()},
        "accuracy among\nlabels in context",
        groups=None,
        trace="run",
        limits=(0, 1.02),
        threshold=0.5,
        columns=2,
    )
    return Measured(values, figure)


_INSIDE, _BEFORE, _AFTER = "CIWL's, in the window", "CIWL's, before", "CIWL's, after"
_SMALL_STARTS = ("0.4M", "0.48M", "0.64M", "0.72M", "1.6M")
_STARTS = ("first", "second", "third", "fourth", "last")

FIGURES = (
    Figure(
        "coopetition/4ab",
        "with layer 1 of CIWL, the loss on context-only sequences leaves its plateau",
        f"{PAPER}, figures 4a and 4b; targets are the final losses in its text",
        cost="40 min",
        about="loss on icl at the end, by the run that layer 1 is taken from",
        study="coopetition",
        runs={
            "nothing": "icl-only-seed-{seed} | icl-only",
            "the main run's": "graft-main-3.2M-seed-{seed} | graft-main-20M",
            _BEFORE: "graft-ciwl-0.4M-seed-{seed} | graft-ciwl-4M",
            _INSIDE: "graft-ciwl-2M-seed-{seed} | graft-ciwl-20M",
            _AFTER: "graft-ciwl-4.8M-seed-{seed} | graft-ciwl-64M",
        },
        measure=_last,
        rows=rows_of(
            NATS,
            {
                "nothing": math.nan,
                "the main run's": 0.1,
                _BEFORE: 0.85,
                _INSIDE: 0.1,
                _AFTER: 0.85,
            },
        ),
        claims=(
            # The positive control is the main run's own layer. The negative controls
            # are no layer, and a layer from before CIWL was learned.
            Times("nothing", _INSIDE, 3),
            Times("nothing", "the main run's", 3),
            Times(_BEFORE, _INSIDE, 3),
            Times(_AFTER, _INSIDE, 3),
        ),
    ),
    Figure(
        "coopetition/4c",
        "started from CIWL, in-context learning emerges only if CIWL is not far yet",
        f"{PAPER}, figure 4c: from 4, 5, 6, 7 and 16 million sequences",
        cost="40 min",
        about="the largest accuracy on flip, by when CIWL's weights are taken",
        study="coopetition",
        runs={
            f"the {name} start": f"start-ciwl-{small} | start-ciwl-{paper}"
            for name, small, paper in zip(
                _STARTS,
                [f"{at}-seed-{{seed}}" for at in _SMALL_STARTS],
                ("4M", "5M", "6M", "7M", "16M"),
                strict=True,
            )
        },
        measure=_peaks,
        rows=rows_of(
            ACCURACY,
            {
                f"the {name} start": peak
                for name, peak in zip(
                    _STARTS, (0.89, 0.88, 0.76, 0.44, math.nan), strict=True
                )
            },
        ),
        claims=(
            Within("the first start", low=0.6),
            Within("the last start", high=0.5),
            Ordering(("the first start", "the fourth start")),
        ),
    ),
    Figure(
        "coopetition/6",
        "if a class is shown as one exemplar, in-context learning stays",
        f"{PAPER}, figure 6",
        cost="20 min",
        about="accuracy among labels in context at the end",
        study="coopetition",
        runs={"matched": "matched-seed-{seed} | matched"},
        measure=_ends,
        rows={
            "matched_flip at the end": Row(0.92, ACCURACY),
            "flip at the end": Row(math.nan, ACCURACY),
        },
        claims=(Within("matched_flip at the end", low=0.8),),
    ),
)
