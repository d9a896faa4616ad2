"""Two Gaussians with opposite means and an unknown shift of both (task A)."""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ...checks import check_not_negative, check_scale, positive
from ._example import ContextChange, Discrimination, prior_log_odds, Unchanged
from ._posterior import log_sphere_ratio


@dataclasses.dataclass(frozen=True)
class ShiftedMean(Discrimination):
    r"""Points $x \sim N(\pm\mu + k, I)$, with $+$ for label 1.

    In each example, $\mu$ is uniform on a sphere, and $k \sim N(0, \sigma_k^2 I)$ is a
    nuisance. Task A of arXiv 2603.10573 has the unit sphere and equally likely labels.
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
    mean_norm: float = 1.0
    r"""$|\mu|$, the radius of the sphere; half the distance of the classes' means."""
    label_prior: float = 0.5
    """The probability of label 1, of each point."""

    def __post_init__(self):
        positive("dim", self.dim)
        positive("context", self.context)
        check_not_negative("nuisance_std", self.nuisance_std)
        if self.assumed_nuisance_std is not None:
            check_not_negative("assumed_nuisance_std", self.assumed_nuisance_std)
        check_scale("mean_norm", self.mean_norm)
        prior_log_odds(self.label_prior)  # Checks it.

    def draw(self, labels: Int[Array, " point"], *, key: PRNGKeyArray):
        mean_key, shift_key, noise_key = jax.random.split(key, 3)
        direction = jax.random.normal(mean_key, (self.dim,))
        mean = self.mean_norm * direction / jnp.linalg.norm(direction)
        shift = self.nuisance_std * jax.random.normal(shift_key, (self.dim,))
        noise = jax.random.normal(noise_key, (len(labels), self.dim))
        signs = (2 * labels - 1)[:, None]
        return signs * mean + shift + noise, {"mean": mean, "shift": shift}

    def log_likelihood_ratio(self, x: Float[Array, " dim"], parameters):
        r"""$2 \mu \cdot (x - k)$."""
        return 2 * jnp.vdot(parameters["mean"], x - parameters["shift"])

    def exchanged(self, parameters):
        return {**parameters, "mean": -parameters["mean"]}

    def log_evidence_ratio(self, context_x, context_y, query_x):
        r"""$L(|h_+|) - L(|h_-|) + 2 S |\mu|^2 / c$, in nats.

        Here $L(|h|)$ is the logarithm of the mean of $e^{h \cdot \mu}$ over the sphere.
        With the labels $s_i = \pm 1$, $H = \sum s_i x_i$, $X = \sum x_i$ and $S = \sum
        s_i$ over the context, $c = N + 1 + \sigma_k^{-2}$ and the query $x$, it is
        $h_\pm = H \pm x - (S \pm 1) (X + x) / c$. Without a shift, $1 / c = 0$.
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
        norm = self.mean_norm
        # h is a sum over all points of means, noise, and what is left of the shift.
        points = len(signs) + 1
        spread = 1 + self.nuisance_std * scale
        longest = points * norm + 4 * spread * math.sqrt(points * self.dim)
        ratio = log_sphere_ratio(norm * middle, norm * half, longest=norm * longest)
        return ratio + 2 * share * norm**2 * balance
