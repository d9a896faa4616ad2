"""Discrimination of two Gaussians in context, with exact Bayes predictors.

An example has labelled points of both classes and an unlabelled query. Its classes have
hidden parameters of their own, so only the context tells what to compare.
"""

from ._example import (
    ContextChange as ContextChange,
    DiscriminationExample as DiscriminationExample,
    NoisyLabels as NoisyLabels,
    prior_log_odds as prior_log_odds,
    ShuffledLabels as ShuffledLabels,
    ShuffledPairs as ShuffledPairs,
    Unchanged as Unchanged,
)
from .shifted_mean import ShiftedMean as ShiftedMean
from .variance import Variance as Variance
