"""Kinds of attention, one per file, and the masks that say who sees whom.

A kind turns queries, keys and values into what each head gathers. The projections
around it belong to `_layer.py`, and blocks to `icl.models`.
"""

from ._kind import AbstractAttention as AbstractAttention
from ._layer import Attention as Attention, Reads as Reads
from .linear import LinearAttention as LinearAttention
from .masks import (
    Causal as Causal,
    ContextOnly as ContextOnly,
    Everything as Everything,
    QueriesSeeContext as QueriesSeeContext,
)
from .product import ProductAttention as ProductAttention
from .softmax import SoftmaxAttention as SoftmaxAttention
