"""Classes of functions, one file each; `icl.tasks.functions` finds them here.

A class draws a function's parameters and evaluates it. Points and their shifts do not
belong here.
"""

from .affine import AffineFunction as AffineFunction
from .classification import LinearClassification as LinearClassification
from .linear import LinearFunction as LinearFunction
from .noisy import NoisyLinear as NoisyLinear
from .quadratic import QuadraticFunction as QuadraticFunction
from .relu import TwoLayerReLU as TwoLayerReLU
from .sparse import SparseLinear as SparseLinear
from .tree import DecisionTree as DecisionTree
from .uniform import UniformLinear as UniformLinear
