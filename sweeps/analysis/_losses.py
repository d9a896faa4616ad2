"""The losses of a study's runs side by side, and when each falls."""

from collections.abc import Iterable, Mapping

import numpy as np

from icl import plots
from icl.plots import DrawnFigure

from ._curves import curves_of, MetricCurves
from ._emergence import Estimate, estimates, HALF
from ._study import Study
from ._table import Table


Groups = Mapping[str, Iterable[str]]
"""The names of runs by label: one run, or one for each seed."""


def losses(
    study: Study, groups: Groups, *, data: str = "train", metric: str = "loss"
) -> MetricCurves:
    """A metric of the runs: means over an evaluation set. Missing runs are skipped."""
    pairs = [(label, run) for label, runs in groups.items() for run in runs]
    curves = [(label, study.curve(run, metric, data=data)) for label, run in pairs]
    return curves_of((label, curve) for label, curve in curves if len(curve[0]))


def loss_figure(
    study: Study, groups: Groups, *, by: str = "", data: str = "train"
) -> DrawnFigure | Table:
    """The loss over training by label, with a 95 % band if there are several seeds.

    If all runs are missing, a table that says so.
    """
    found = losses(study, groups, data=data)
    if not found.labels:
        names = [name for runs in groups.values() for name in runs]
        text = f"{names[0]}, …" if names else "all"
        return Table(("not run", "runs"), [(str(study), text)])
    several = len({*found.labels}) < len(found.labels)
    return plots.traces(
        found.sequences,
        found.values,
        groups=np.array(found.labels),
        label="loss (nats)",
        by=by,
        trace="seed",
        band=plots.Confidence() if several else None,
        limits=(0, None),
        threshold=HALF,
    )


def emergence_table(
    what: str,
    paper: Mapping[str, float | None],
    columns: Mapping[str, tuple[Study, Groups]],
    *,
    level: float = HALF,
    data: str = "train",
) -> Table:
    """When losses fall to a level, in thousands of sequences, beside the paper's.

    "–" stands for a missing run.

    **Arguments:**

    - `what`: The heading of the row labels.
    - `paper`: The paper's number in sequences, for each row label.
    - `columns`: A study and its runs by label, for each heading.
    - `level`: In nats.
    - `data`: The evaluation set on which the mean loss is taken.
    """
    found = [
        estimates(study, groups, level=level, data=data)
        for study, groups in columns.values()
    ]
    none = Estimate.of([])
    rows = [
        (label, None if number is None else number / 1e3)
        + tuple(each.get(label, none) / 1e3 for each in found)
        for label, number in paper.items()
    ]
    return Table((what, "paper (thousands)", *columns), rows)
