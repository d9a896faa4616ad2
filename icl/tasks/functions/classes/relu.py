"""Networks with one hidden layer."""

import dataclasses
import math

import jax
from jaxtyping import Array, Float

from ....checks import check_scale, positive
from .._function import FunctionClass, Parameters, Size


@dataclasses.dataclass(frozen=True)
class TwoLayerReLU(FunctionClass):
    r"""$f(x) = s \sqrt{2 / h}\; w_2 \cdot \max(W_1^\top x, 0)$ with normal weights.

    The root makes the mean square of its values that of a linear function (Garg et al.
    2022, section 5).
    """

    hidden: int = 100
    """$h$, the number of hidden units."""
    scale: float = 1.0
    """$s$, above 0."""

    def __post_init__(self):
        positive("hidden", self.hidden)
        check_scale("scale", self.scale)

    def check(self, dim: int) -> None:
        """Any number of components will do."""

    def draw(self, points, dim, *, active, key) -> Parameters:
        first, second = jax.random.split(key)
        return {
            "W1": jax.random.normal(first, (dim, self.hidden)),
            "W2": jax.random.normal(second, (self.hidden,)),
        }

    def values(
        self, parameters: Parameters, xs: Float[Array, "point dim"]
    ) -> Float[Array, " point"]:
        hidden = jax.nn.relu(xs @ parameters["W1"])
        return self.scale * math.sqrt(2 / self.hidden) * (hidden @ parameters["W2"])

    def mean_square(self, dim, inputs, *, active) -> Size:
        r"""$s^2 d$ times the variance of a component."""
        return self.scale**2 * active * inputs.second
