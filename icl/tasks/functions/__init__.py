"""Functions in context: prompts x1 y1 x2 y2 … of a function that is new in each prompt.

The task, its curriculum and its example are here; `classes` has what functions there
are, and `shifts` has what may happen to the points. Good learners of these functions
are in `icl.baselines`, not here.
"""

from ._function import (
    FunctionClass as FunctionClass,
    Parameters as Parameters,
    SignedLabels as SignedLabels,
    SquaredError as SquaredError,
)
from ._shift import (
    InputShift as InputShift,
    NORMAL as NORMAL,
    PointMoments as PointMoments,
)
from .curriculum import Curriculum as Curriculum, Ramp as Ramp
from .task import (
    FunctionExample as FunctionExample,
    InContextFunction as InContextFunction,
)
