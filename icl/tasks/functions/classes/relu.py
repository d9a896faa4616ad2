"""Networks with one hidden layer."""

import dataclasses
import math

import jax

from .._function import LikeLinear, Parameters


@dataclasses.dataclass(frozen=True)
class TwoLayerReLU(LikeLinear):
    r"""$f(x) = s \sqrt{2 / h}\; w_2 \cdot \max(W_1^\top x, 0)$ with normal weights.

    The root makes the mean square of its values that of a linear function (Garg et al.
    2022, section 5).
    """

    hidden: int = 100
    """$h$, the number of hidden units."""
    scale: float = 1.0
    """$s$, above 0."""

    def draw(self, points, dim, *, active, key) -> Parameters:
        first, second = jax.random.split(key)
        return {
            "W1": jax.random.normal(first, (dim, self.hidden)),
            "W2": jax.random.normal(second, (self.hidden,)),
        }

    def values(self, parameters, xs):
        hidden = jax.nn.relu(xs @ parameters["W1"])
        return self.scale * math.sqrt(2 / self.hidden) * (hidden @ parameters["W2"])
