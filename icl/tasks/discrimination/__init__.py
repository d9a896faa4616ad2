"""Discrimination of two Gaussians in context, with exact Bayes predictors.

An example has labelled points of both classes and an unlabelled query. Its classes have
hidden parameters of their own, so only the context tells what to compare.
"""

from ._context import (
    ContextChange as ContextChange,
    NoisyLabels as NoisyLabels,
    ShuffledLabels as ShuffledLabels,
    ShuffledPairs as ShuffledPairs,
    Unchanged as Unchanged,
)
from ._example import (
    DiscriminationExample as DiscriminationExample,
    prior_log_odds as prior_log_odds,
)
from .shifted_mean import ShiftedMean as ShiftedMean
from .variance import Variance as Variance
