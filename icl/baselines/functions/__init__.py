"""Good learners of functions in context, with the interface of models.

Each is called with a prompt's points and values and predicts each value from the pairs
before it. Algorithms that improve step by step are in `icl.baselines.descent`.
"""

from ._learners import (
    Averaging as Averaging,
    ContextLearner as ContextLearner,
    LeastSquares as LeastSquares,
    NearestNeighbours as NearestNeighbours,
    TwoLayerNetwork as TwoLayerNetwork,
)
from ._sklearn import (
    BoostedTrees as BoostedTrees,
    GreedyTree as GreedyTree,
    Lasso as Lasso,
)
