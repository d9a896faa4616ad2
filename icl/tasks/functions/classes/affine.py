"""Linear functions with an offset."""

import dataclasses

import jax
from jaxtyping import Array, Float

from ....checks import check_scale
from .._function import FunctionClass, linear, Parameters, Size


@dataclasses.dataclass(frozen=True)
class AffineFunction(FunctionClass):
    r"""$f(x) = s\, w \cdot x + b$ with $w \sim N(0, I)$ and $b \sim N(0, \sigma_b^2)$.

    The offset $b$ is one number for all points of a prompt (limits_of_icl).
    """

    bias_std: float = 1.0
    r"""$\sigma_b$, above 0."""
    scale: float = 1.0
    """$s$, above 0."""

    def __post_init__(self):
        check_scale("bias_std", self.bias_std)
        check_scale("scale", self.scale)

    def check(self, dim: int) -> None:
        """Any number of components will do."""

    def draw(self, points, dim, *, active, key) -> Parameters:
        weights_key, bias_key = jax.random.split(key)
        return {
            "w": jax.random.normal(weights_key, (dim,)),
            "b": self.bias_std * jax.random.normal(bias_key, ()),
        }

    def values(
        self, parameters: Parameters, xs: Float[Array, "point dim"]
    ) -> Float[Array, " point"]:
        return linear(xs, parameters["w"], self.scale) + parameters["b"]

    def mean_square(self, dim, inputs, *, active) -> Size:
        r"""$s^2 d$ times the variance of a component: the offset does not count."""
        return self.scale**2 * active * inputs.second
