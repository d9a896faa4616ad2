"""Kinds of attention, one per file, and the masks that say who sees whom.

A kind turns queries, keys and values into what each head gathers. The projections
around it belong to `_layer.py`, and blocks to `icl.models`.
"""

from ._kind import (
    AbstractAttention as AbstractAttention,
    AbstractMixingAttention as AbstractMixingAttention,
)
from ._layer import Attention as Attention, Reads as Reads
from .favor import FavorAttention as FavorAttention
from .favor_unstabilised import UnstabilisedFavorAttention as UnstabilisedFavorAttention
from .linear import LinearAttention as LinearAttention
from .masks import (
    Causal as Causal,
    ContextOnly as ContextOnly,
    Everything as Everything,
    QueriesSeeContext as QueriesSeeContext,
    Window as Window,
)
from .product import ProductAttention as ProductAttention
from .rebased import RebasedAttention as RebasedAttention
from .rebased_elementwise import (
    ElementwiseRebasedAttention as ElementwiseRebasedAttention,
)
from .rela import RelaAttention as RelaAttention
from .softmax import SoftmaxAttention as SoftmaxAttention
