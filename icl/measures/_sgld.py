r"""Sampling of weights near a point by stochastic gradient Langevin dynamics (SGLD).

The weights $w$ are drawn from
$p(w) \propto \exp(-n\beta L(w) - \gamma |w - w^*|^2 / 2)$, where $w^*$ is the centre,
$n\beta$ the `scale` of the loss and $\gamma$ the `localization` (Lau et al. 2023,
arXiv 2308.12108; Welling and Teh 2011).
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..checks import check_not_negative, check_scale


Vector = Float[Array, " weight"]
Loss = Callable[[Vector, PRNGKeyArray], Float[Array, ""]]
"""A loss of the weights on a batch that the key draws."""


@dataclasses.dataclass(frozen=True)
class SGLD:
    """The same step size for all weights."""

    def start(self, weights: Vector) -> Vector:
        return jnp.zeros_like(weights)

    def rates(self, state: Vector, slope: Vector) -> tuple[Vector, Vector]:
        """The factor on the step size of each weight, and the next state."""
        return jnp.ones_like(slope), state


@dataclasses.dataclass(frozen=True)
class RMSpropSGLD:
    """Larger steps where slopes are small (Li et al. 2016, arXiv 1512.07666).

    The term of their equation 5 with derivatives of the factor is left out, as they do.
    So it is biased where the factor follows the weights, the more the shorter its
    memory.
    """

    decay: float = 0.99
    """How much of the mean of squared slopes a step keeps."""
    stability: float = 0.1
    """Added to the root of that mean: the factor is at most one over this."""

    def __post_init__(self):
        if not 0 <= self.decay < 1:
            raise ValueError(f"decay must be in [0, 1), got {self.decay}")
        check_scale("stability", self.stability)

    def start(self, weights: Vector) -> Vector:
        return jnp.zeros_like(weights)

    def rates(self, state: Vector, slope: Vector) -> tuple[Vector, Vector]:
        """The factor on the step size of each weight, and the next state."""
        state = self.decay * state + (1 - self.decay) * slope**2
        return 1 / (self.stability + jnp.sqrt(state)), state


Sampler = SGLD | RMSpropSGLD


def sampled_losses(
    loss: Loss,
    centre: Vector,
    *,
    scale: Float[Array, ""] | float,
    localization: float,
    step_size: float,
    steps: int,
    key: PRNGKeyArray,
    sampler: Sampler = SGLD(),
    moving: Vector | None = None,
) -> Float[Array, " step"]:
    r"""The losses along one chain that starts at the centre.

    A step is $\Delta w = \epsilon G (-n\beta \nabla L - \gamma (w - w^*)) / 2 +
    \sqrt{\epsilon G} \xi$ with normal noise $\xi$. The loss of a step is that before
    it, on the step's batch.

    **Arguments:**

    - `scale`, `localization`, `step_size`: $n\beta$, $\gamma$ and $\epsilon$.
    - `sampler`: Gives the factors $G$.
    - `moving`: 1 for weights that move, 0 for those that stay; all by default.
    """
    check_scale("step_size", step_size)
    check_not_negative("localization", localization)
    share = jnp.ones_like(centre) if moving is None else moving

    def step(carry, key):
        weights, state = carry
        batch_key, noise_key = jax.random.split(key)
        value, slope = jax.value_and_grad(loss)(weights, batch_key)
        factor, state = sampler.rates(state, slope)
        drift = -scale * slope - localization * (weights - centre)
        noise = jax.random.normal(noise_key, weights.shape, weights.dtype)
        rate = step_size * factor
        weights = weights + share * (rate / 2 * drift + jnp.sqrt(rate) * noise)
        return (weights, state), value

    start = centre, sampler.start(centre)
    return jax.lax.scan(step, start, jax.random.split(key, steps))[1]
