"""Shifts of the inputs, one file each; `icl.tasks.functions` finds them here.

A shift maps standard normal points to those of a context and of queries. Other weights,
noise and offsets are classes of functions and do not belong here.
"""

from .opposite import OppositeQuery as OppositeQuery
from .orthant import OrthantContext as OrthantContext
from .orthogonal import OrthogonalQuery as OrthogonalQuery
from .overlapping import OverlappingQuery as OverlappingQuery
from .scaled import ScaledInputs as ScaledInputs, ScaledQuery as ScaledQuery
from .self_test import check_change as check_change, largest_change as largest_change
from .skewed import SkewedInputs as SkewedInputs
from .subspace import SubspaceInputs as SubspaceInputs
