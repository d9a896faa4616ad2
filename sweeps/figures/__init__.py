"""A figure of a paper as a value: its runs, measurement, targets and claims.

Code that makes, judges or finds figures of any paper belongs here. The figures of one
paper are in its folder in `sweeps.studies`.
"""

from ._claims import (
    Alike as Alike,
    Claim as Claim,
    Exceeds as Exceeds,
    Given as Given,
    Ordering as Ordering,
    Same as Same,
    Times as Times,
    Together as Together,
    Within as Within,
)
from ._drawing import (
    by_seed as by_seed,
    BySeed as BySeed,
    crossings as crossings,
    curves as curves,
    curves_by_set as curves_by_set,
    dotted as dotted,
    draw_curves as draw_curves,
    of_each as of_each,
)
from ._figure import Figure as Figure, Measured as Measured, Runs as Runs
from ._notebook import drawn_from as drawn_from, table_of as table_of
from ._papers import (
    all_figures as all_figures,
    all_published as all_published,
    find_figure as find_figure,
    papers as papers,
    Published as Published,
)
from ._row import (
    ACCURACY as ACCURACY,
    ATTENTION as ATTENTION,
    CORRELATION as CORRELATION,
    COUNT as COUNT,
    DIFFERENCE as DIFFERENCE,
    NATS as NATS,
    PROBABILITY as PROBABILITY,
    QUOTIENT as QUOTIENT,
    Row as Row,
    rows_of as rows_of,
    SEQUENCES as SEQUENCES,
    SHARE as SHARE,
    STEPS as STEPS,
    Unit as Unit,
    WithinDifference as WithinDifference,
    WithinFactor as WithinFactor,
)
from ._table import Judged as Judged, NOT_REACHED as NOT_REACHED
from ._verdict import Verdict as Verdict, verdict_of_row as verdict_of_row
