"""Good learners of functions in context, with the interface of models.

Each is called with a prompt's points and values and predicts each value from the pairs
before it. Algorithms that improve step by step are in `icl.baselines.descent`.
"""

from ._learner import ContextLearner as ContextLearner
from .averaging import Averaging as Averaging
from .lasso import Lasso as Lasso
from .least_squares import LeastSquares as LeastSquares
from .nearest import NearestNeighbours as NearestNeighbours
from .network import TwoLayerNetwork as TwoLayerNetwork
from .trees import BoostedTrees as BoostedTrees, GreedyTree as GreedyTree
