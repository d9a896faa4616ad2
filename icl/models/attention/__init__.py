"""Kinds of attention, one a file, and the masks that say who sees whom.

A kind goes from queries, keys and values to what each head gathers; the projections
around it and what blocks do belong to `_layer.py` and to `icl.models`.
"""

from ._kind import AbstractAttention as AbstractAttention
from ._layer import Attention as Attention, Reads as Reads
from .linear import LinearAttention as LinearAttention
from .masks import (
    Causal as Causal,
    ContextOnly as ContextOnly,
    Everything as Everything,
)
from .product import ProductAttention as ProductAttention
from .softmax import SoftmaxAttention as SoftmaxAttention
