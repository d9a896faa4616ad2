"""Labels on the two sides of a plane."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._function import FunctionClass, linear, Parameters, Size
from .._scoring import Scoring, SignedLabels


@dataclasses.dataclass(frozen=True)
class LinearClassification(FunctionClass):
    r"""$f(x) = \operatorname{sign}(w \cdot x)$ with $w \sim N(0, I)$; 0 on the plane.

    Predictions are logits of the label 1 (Garg et al. 2022, public code).
    """

    scoring: ClassVar[Scoring] = SignedLabels()

    def check(self, dim: int) -> None:
        """Any number of components will do."""

    def draw(self, points, dim, *, active, key) -> Parameters:
        return {"w": jax.random.normal(key, (dim,))}

    def values(
        self, parameters: Parameters, xs: Float[Array, "point dim"]
    ) -> Float[Array, " point"]:
        return jnp.sign(linear(xs, parameters["w"], 1.0))

    def mean_square(self, dim, inputs, *, active) -> Size:
        """1: labels are not divided by anything."""
        return 1.0
