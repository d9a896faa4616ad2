"""Two centred Gaussians with different variances (task B)."""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ...checks import positive
from ._example import ContextChange, Discrimination, prior_log_odds, Unchanged
from ._posterior import log_scale_gain


@dataclasses.dataclass(frozen=True)
class Variance(Discrimination):
    r"""Points $x \sim N(0, \sigma_y^2 I)$ of label $y$.

    In each example, $\sigma_0$ and $\sigma_1$ are independent and uniform between two
    bounds (arXiv 2603.10573, task B).
    """

    dim: int = 16
    """Number of components of a point."""
    context: int = 32
    """Number of labelled points."""
    least_std: float = 0.5
    """The lower bound of the standard deviations, above 0."""
    largest_std: float = 3.0
    """Their upper bound."""
    context_change: ContextChange = Unchanged()
    """What is done to the context before the model sees it."""
    label_prior: float = 0.5
    """The probability of label 1, of each point; 1/2 in the paper."""

    def __post_init__(self):
        positive("dim", self.dim)
        positive("context", self.context)
        if not 0 < self.least_std < self.largest_std < math.inf:
            got = f"{self.least_std} and {self.largest_std}"
            wanted = "least_std and largest_std must be positive and in this order"
            raise ValueError(f"{wanted}, got {got}")
        prior_log_odds(self.label_prior)  # Checks it.

    def draw(self, labels: Int[Array, " point"], *, key: PRNGKeyArray):
        std_key, noise_key = jax.random.split(key)
        low, high = self.least_std, self.largest_std
        stds = jax.random.uniform(std_key, (2,), minval=low, maxval=high)
        noise = jax.random.normal(noise_key, (len(labels), self.dim))
        return stds[labels][:, None] * noise, {"stds": stds}

    def log_likelihood_ratio(self, x: Float[Array, " dim"], parameters):
        r"""$d \ln(\sigma_0 / \sigma_1) + |x|^2 (\sigma_0^{-2} - \sigma_1^{-2}) / 2$."""
        std0, std1 = parameters["stds"]
        precisions = std0**-2.0 - std1**-2.0
        return len(x) * jnp.log(std0 / std1) + 0.5 * jnp.sum(x**2) * precisions

    def exchanged(self, parameters):
        return {"stds": parameters["stds"][..., ::-1]}

    def log_evidence_ratio(self, context_x, context_y, query_x):
        r"""The difference of two gains, in nats.

        With $G(q, n) = \ln E[s^{-dn} e^{-q / 2 s^2}]$ over the prior of $s$, $q_y$ and
        $n_y$ the sum of squares and the number of the points of class $y$, it is
        $G(q_1 + |x|^2, n_1 + 1) - G(q_1, n_1)$ minus the same of class 0.
        """
        squares = jnp.sum(context_x**2, -1)
        own = jnp.sum(query_x**2), jnp.asarray(self.dim, query_x.dtype)
        bounds = self.least_std, self.largest_std

        def gain(label: int) -> Float[Array, ""]:
            of_class = (context_y == label).astype(context_x.dtype)
            seen = of_class @ squares, self.dim * of_class.sum()
            return log_scale_gain(seen, own, *bounds)

        return gain(1) - gain(0)
