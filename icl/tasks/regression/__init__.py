r"""Linear regression in context (von Oswald et al., 2023; Garg et al., 2022).

An example is a context of pairs $(x_i, y_i)$ with $y_i = w \cdot x_i$, and queries
whose $y$ are to be predicted. Each example has new weights $w$, so only the context
tells them. Distributions of points, orders of the pairs and noise on some of them are
files here; algorithms that solve the task belong to `icl.baselines`.
"""

from ._task import (
    LinearRegression as LinearRegression,
    RegressionExample as RegressionExample,
)
from .inputs import (
    CorrelatedInputs as CorrelatedInputs,
    GaussianInputs as GaussianInputs,
    InputDistribution as InputDistribution,
    UniformInputs as UniformInputs,
)
from .orderings import (
    AsDrawn as AsDrawn,
    EasyToHard as EasyToHard,
    HardToEasy as HardToEasy,
    Ordering as Ordering,
    RandomOrder as RandomOrder,
    SmallToLargeNorm as SmallToLargeNorm,
)
from .pair_noise import (
    FreshTeacher as FreshTeacher,
    MatchedMarginals as MatchedMarginals,
    NoisyValues as NoisyValues,
    PairNoise as PairNoise,
    Placement as Placement,
    RandomPairs as RandomPairs,
    UniformPairs as UniformPairs,
)
