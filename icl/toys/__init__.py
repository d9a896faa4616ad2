"""Toy models of phase changes: gradient descent on products of vectors.

A `Toy` has true vectors, start vectors and a loss of both. `descend` follows the
gradient; it can clamp entries and take measures on the way. `induction` and
`coopetition` are the toys of two papers. Models that read examples belong to
`icl.models`.
"""

from ._descent import (
    descend as descend,
    Toy as Toy,
    ToyClamp as ToyClamp,
    ToyDescent as ToyDescent,
    Trace as Trace,
)
from ._events import half_time as half_time, plateau as plateau, rise as rise
from ._loss import (
    AbstractForm as AbstractForm,
    AbstractLoss as AbstractLoss,
    Coopetition as Coopetition,
    InnerProducts as InnerProducts,
    RankOne as RankOne,
    Size as Size,
    Tensor as Tensor,
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
