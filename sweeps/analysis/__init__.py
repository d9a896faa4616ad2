"""Measurements on runs of any paper: curves, emergence times, ablated heads, tables.

They read the folders that `python -m sweeps NAME` makes; notebooks and figures show
them. Analyses for one paper only belong in its folder in `sweeps.studies`.
"""

from ._ablations import (
    check_two_layers as check_two_layers,
    layer_index as layer_index,
    num_heads as num_heads,
    only as only,
    rest as rest,
    without as without,
)
from ._curves import (
    curves_of as curves_of,
    logged_curve as logged_curve,
    MetricCurves as MetricCurves,
    together as together,
)
from ._emergence import (
    crossing as crossing,
    Estimate as Estimate,
    HALF as HALF,
    Passage as Passage,
    passage as passage,
)
from ._study import (
    begun as begun,
    find_run as find_run,
    latest_run as latest_run,
    RUNS as RUNS,
    runs_folder as runs_folder,
    Study as Study,
)
from ._table import cell as cell, Table as Table
