"""Linear functions with noise on each value."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._function import check_numbers, FunctionClass, Parameters, Size


@dataclasses.dataclass(frozen=True)
class KeptSize:
    """The values as they are."""

    def factor(self, scale, noise_std, dim, active) -> Float[Array, ""]:
        return jnp.ones(())

    def mean_square(self, exact, scale, noise_std, dim, active) -> Size:
        return exact


@dataclasses.dataclass(frozen=True)
class ExpectedSize:
    r"""The values times $\sqrt d / \sqrt{s^2 d' + \sigma^2}$, $d'$ components used.

    The denominator is the expected standard deviation of the values at standard normal
    points, so that the values have the size of those without noise. The public code
    divides by the sample standard deviation of the whole batch instead: there, a prompt
    depends on the others in its batch. Both are the same for a large batch. For 64
    prompts of 20 dimensions the batch's number varies by 4 %.
    """

    def factor(self, scale, noise_std, dim, active) -> Float[Array, ""]:
        return jnp.sqrt(self._square(scale, noise_std, dim, active))

    def mean_square(self, exact, scale, noise_std, dim, active) -> Size:
        square = self._square(scale, noise_std, dim, active)
        return square * (exact + noise_std**2)

    def _square(self, scale, noise_std, dim, active) -> Size:
        """The square of the factor."""
        return dim / (scale**2 * active + noise_std**2)


@dataclasses.dataclass(frozen=True)
class NoisyLinear(FunctionClass):
    r"""$f(x) = s\, w \cdot x + \epsilon$ with noise $\epsilon \sim N(0, \sigma^2)$.

    Each point has noise of its own. As in the public code, the values to predict are
    noisy, too: the error of a perfect learner is at least $\sigma^2$.
    """

    noise_std: float = 1.0
    r"""$\sigma$, above 0."""
    scale: float = 1.0
    """$s$, above 0."""
    size: KeptSize | ExpectedSize = KeptSize()
    """Whether the noisy values are brought back to the size of those without noise."""

    def __post_init__(self):
        check_numbers(self)

    def draw(self, points, dim, *, active, key) -> Parameters:
        weights_key, noise_key = jax.random.split(key)
        return {
            "w": jax.random.normal(weights_key, (dim,)),
            "noise": jax.random.normal(noise_key, (points,)),
            "factor": self.size.factor(self.scale, self.noise_std, dim, active),
        }

    def values(self, parameters, xs):
        """The noisy values; point *i* has the noise *i*."""
        exact = self.scale * (xs @ parameters["w"])
        return parameters["factor"] * (exact + self.noise_std * parameters["noise"])

    def mean_square(self, dim, inputs, *, active) -> Size:
        """The noise counts where the values have the size of those without noise."""
        exact = self.scale**2 * active * inputs.second
        return self.size.mean_square(exact, self.scale, self.noise_std, dim, active)
