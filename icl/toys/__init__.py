"""Toy models of phase changes: gradient descent on products of vectors.

A `Toy` has true vectors, start vectors and a loss of both. `descend` follows the
gradient; it can clamp entries and take measures on the way. `induction` and
`coopetition` are the toys of two papers. Models that read examples belong to
`icl.models`.
"""

from ._descent import descend as descend, ToyDescent as ToyDescent
from ._events import half_time as half_time, plateau as plateau, rise as rise
from ._form import (
    AbstractForm as AbstractForm,
    InnerProducts as InnerProducts,
    Tensor as Tensor,
)
from ._loss import (
    AbstractLoss as AbstractLoss,
    Coopetition as Coopetition,
    RankOne as RankOne,
    Size as Size,
    ToyMeasure as ToyMeasure,
    Vectors as Vectors,
)
from ._measures import (
    Distance as Distance,
    GradientNorm as GradientNorm,
    LossAtTruth as LossAtTruth,
    Misalignment as Misalignment,
    Norm as Norm,
)
from ._presets import (
    coopetition as coopetition,
    induction as induction,
    run as run,
    ToyStudy as ToyStudy,
)
from ._toy import Toy as Toy, ToyClamp as ToyClamp, Trace as Trace
