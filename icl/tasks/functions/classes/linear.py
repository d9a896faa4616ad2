"""Linear functions."""

import dataclasses

import jax
from jaxtyping import Array, Float

from ....checks import check_scale
from .._function import FunctionClass, linear, Parameters, Size


@dataclasses.dataclass(frozen=True)
class LinearFunction(FunctionClass):
    r"""$f(x) = s\, w \cdot x$ with $w \sim N(0, I)$ (Garg et al. 2022, section 3)."""

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
        return linear(xs, parameters["w"], self.scale)

    def mean_square(self, dim, inputs, *, active) -> Size:
        r"""$s^2 d$ times the variance of a component."""
        return self.scale**2 * active * inputs.second
