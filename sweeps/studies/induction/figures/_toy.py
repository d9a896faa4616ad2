"""The toy model of the induction-head paper, figure 5a."""

import math

import numpy as np

from icl import plots, toys

from ....figures import Figure, Measured, rows_of, Runs, Same, STEPS
from ._heads import PAPER


_GIVEN = {"none": "none", "c": "c", "b, c": "b and c"}


def _phase_changes(runs: Runs) -> Measured:
    traces = toys.run(toys.induction(), 1)
    losses = {_GIVEN[name]: np.asarray(t.losses) for name, t in traces.items()}
    turned = {
        _GIVEN[name]: np.asarray(trace.measures["misalignment of a"])
        for name, trace in traces.items()
    }
    halves = {name: toys.half_time(each) for name, each in losses.items()}
    panels = {"loss": losses, "1 − cos² of a to the true a": turned}
    values = {
        name: np.array([math.inf if half is None else float(half)])
        for name, half in halves.items()
    }
    return Measured(values, plots.clamped_descents(panels, halves=halves))


FIGURES = (
    Figure(
        "induction/5a",
        "a toy of three vectors: a phase change, which comes sooner if some are given",
        f"{PAPER}, figure 5a; targets are from its public code",
        cost="10 s",
        about="gradient steps until half of the plateau's loss, by what is clamped",
        measure=_phase_changes,
        rows=rows_of(STEPS, {"none": 742, "c": 116, "b and c": 66}),
        claims=(Same(("none", "c", "b and c")),),
    ),
)
