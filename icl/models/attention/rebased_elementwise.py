"""The variant of ReBased attention in the public code `limits_of_icl`."""

import dataclasses
from typing import ClassVar

from jaxtyping import Array, Float, PRNGKeyArray

from ...protocols import AttentionConfig
from ._kernels import AbstractKernelAttention, Features, Kernel
from ._kind import AbstractAttention
from .rebased import EPSILON, gain_and_offset, rescaled


class _ElementwiseRebased(AbstractKernelAttention):
    gain: Float[Array, "head d_head"]
    offset: Float[Array, "head d_head"]

    name: ClassVar = "ElementwiseRebasedAttention"
    rows: ClassVar = "non-negative"
    kernel: ClassVar = Kernel(epsilon=EPSILON)

    def queries(self, q):
        return Features(rescaled(q, self.gain, self.offset) ** 2)

    def keys(self, k):
        return Features(rescaled(k, self.gain, self.offset) ** 2)


@dataclasses.dataclass(frozen=True)
class ElementwiseRebasedAttention(AttentionConfig):
    r"""Weights are proportional to $\sum_i q'^2_i k'^2_i$.

    As `RebasedAttention`, but the features are the squares of the entries of $x'$,
    without products of two different ones. So this is another model.
    """

    def build(
        self, num_heads: int, d_head: int, *, scale: float | None, key: PRNGKeyArray
    ) -> AbstractAttention:
        if scale is not None:
            name = type(self).__name__
            raise ValueError(f"scale: {name} has no scores, got {scale}")
        return _ElementwiseRebased(*gain_and_offset(num_heads, d_head))
