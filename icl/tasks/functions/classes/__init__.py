"""Classes of functions; `icl.tasks.functions` finds them here.

A class draws a function's parameters and evaluates it. Points and their shifts do not
belong here.
"""

from .linear import (
    AffineFunction as AffineFunction,
    LinearClassification as LinearClassification,
    LinearFunction as LinearFunction,
    QuadraticFunction as QuadraticFunction,
    SparseLinear as SparseLinear,
    UniformLinear as UniformLinear,
)
from .noisy import NoisyLinear as NoisyLinear
from .relu import TwoLayerReLU as TwoLayerReLU
from .tree import DecisionTree as DecisionTree
