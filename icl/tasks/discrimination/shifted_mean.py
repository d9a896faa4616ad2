"""Two Gaussians with opposite means and an unknown shift of both (task A)."""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ...checks import instance, positive
from ._context import ContextChange, Unchanged
from ._example import Discrimination
from ._posterior import log_sphere_ratio


@dataclasses.dataclass(frozen=True)
class ShiftedMean(Discrimination):
    r"""Points $x \sim N(\pm\mu + k, I)$, with $+$ for label 1.

    In each example, $\mu$ is uniform on the unit sphere, and $k \sim N(0, \sigma_k^2
    I)$ is a nuisance (arXiv 2603.10573, task A).
    """

    dim: int = 16
    """Number of components of a point."""
    context: int = 32
    """Number of labelled points."""
    nuisance_std: float = 3.0
    r"""$\sigma_k$, the standard deviation of each component of the shift; 0 is no
    shift."""
    assumed_nuisance_std: float | None = None
    r"""The $\sigma_k$ that the Bayes predictor assumes; `None` is `nuisance_std`. With
    another one, it is the predictor of someone who learnt the task there."""
    context_change: ContextChange = Unchanged()
    """What is done to the context before the model sees it."""

    def __post_init__(self):
        positive("dim", self.dim)
        positive("context", self.context)
        instance("context_change", self.context_change, ContextChange)
        for name in ("nuisance_std", "assumed_nuisance_std"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name} must be at least 0 and finite, got {value}")

    def draw(self, labels: Int[Array, " point"], *, key: PRNGKeyArray):
        mean_key, shift_key, noise_key = jax.random.split(key, 3)
        direction = jax.random.normal(mean_key, (self.dim,))
        mean = direction / jnp.linalg.norm(direction)
        shift = self.nuisance_std * jax.random.normal(shift_key, (self.dim,))
        noise = jax.random.normal(noise_key, (len(labels), self.dim))
        signs = (2 * labels - 1)[:, None]
        return signs * mean + shift + noise, {"mean": mean, "shift": shift}

    def log_likelihood_ratio(self, x: Float[Array, " dim"], parameters):
        r"""$2 \mu \cdot (x - k)$."""
        return 2 * jnp.vdot(parameters["mean"], x - parameters["shift"])

    def exchanged(self, parameters):
        return {**parameters, "mean": -parameters["mean"]}

    def log_odds(
        self,
        context_x: Float[Array, "pair dim"],
        context_y: Int[Array, " pair"],
        query_x: Float[Array, " dim"],
    ) -> Float[Array, ""]:
        r"""The exact log-odds of label 1 given the context, in nats.

        Both hidden parameters are integrated out. Let $s_i = \pm 1$ be the labels, $H =
        \sum s_i x_i$, $X = \sum x_i$, $S = \sum s_i$ over the context, $c = N + 1 +
        \sigma_k^{-2}$, and $h_\pm = H \pm x - (S \pm 1) (X + x) / c$ for the query $x$.
        The log-odds are $L(|h_+|) - L(|h_-|) + 2 S / c$, where $L(|h|)$ is the
        logarithm of the mean of $e^{h \cdot \mu}$ over the sphere. Without a shift,
        $1 / c = 0$.
        """
        std = self.nuisance_std
        if self.assumed_nuisance_std is not None:
            std = self.assumed_nuisance_std
        signs = (2 * context_y - 1).astype(context_x.dtype)
        balance = signs.sum()
        scale = 1 / ((len(signs) + 1) * std**2 + 1)
        share = std**2 * scale  # 1 / c
        # From the context's mean, as in float32 a wide shift drowns the points.
        origin = context_x.mean(0)
        x, query = context_x - origin, query_x - origin
        # h is the middle plus or minus the half.
        middle = signs @ x + balance * scale * origin - (balance * share) * query
        half = query + scale * origin - share * query
        return log_sphere_ratio(middle, half) + 2 * share * balance
