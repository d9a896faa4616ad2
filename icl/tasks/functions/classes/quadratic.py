"""Quadratic functions without mixed terms."""

import dataclasses
import math

import jax
from jaxtyping import Array, Float

from ....checks import check_scale
from .._function import FunctionClass, linear, Parameters, Size


@dataclasses.dataclass(frozen=True)
class QuadraticFunction(FunctionClass):
    r"""$f(x) = \frac{s}{\sqrt 3} \sum_j w_j x_j^2$ with $w \sim N(0, I)$.

    The root of 3 makes the mean square of its values that of a linear function (Garg et
    al. 2022, public code).
    """

    scale: float = 1.0
    """$s$, above 0."""

    def __post_init__(self):
        check_scale("scale", self.scale)

    def check(self, dim: int) -> None:
        """Any number of components will do."""

    def draw(self, points, dim, *, active, key) -> Parameters:
        return {"w": jax.random.normal(key, (dim,))}

    def values(
        self, parameters: Parameters, xs: Float[Array, "point dim"]
    ) -> Float[Array, " point"]:
        return linear(xs**2, parameters["w"], self.scale) / math.sqrt(3)

    def mean_square(self, dim, inputs, *, active) -> Size:
        r"""$s^2 d / 3$ times the mean fourth power of a component."""
        return self.scale**2 * active * inputs.fourth / 3
