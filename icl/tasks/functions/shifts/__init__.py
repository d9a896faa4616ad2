"""Shifts of the inputs; `icl.tasks.functions` finds them here.

A shift maps standard normal points to those of a context and of queries. Other weights,
noise and offsets are classes of functions and do not belong here.
"""

from .queries import (
    OppositeQuery as OppositeQuery,
    OrthantContext as OrthantContext,
    OrthogonalQuery as OrthogonalQuery,
    OverlappingQuery as OverlappingQuery,
)
from .scaled import ScaledInputs as ScaledInputs, ScaledQuery as ScaledQuery
from .self_test import check_change as check_change, largest_change as largest_change
from .stretched import SkewedInputs as SkewedInputs, SubspaceInputs as SubspaceInputs
