"""Gradient descent on a context, step by step.

Each algorithm is called with one example's pairs and query, and gives the predictions
after 0, 1, … steps; `icl.baselines.curves` has the loss of each. Weights start at zero,
and a rate is for the mean over the context of half the squared error.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from ..checks import check_axes, check_not_negative, positive


Points = Float[Array, "pair dim"]
Values = Float[Array, " pair"]
Numbers = ArrayLike | Sequence[float]
Algorithm = Callable[[Points, Values, Float[Array, " dim"]], Float[Array, " step"]]
"""The predictions for a query after 0, 1, … steps on the pairs of a context."""


class GradientDescent(eqx.Module):
    r"""$w \leftarrow w - \frac{\eta_t}{N} \sum_i (w \cdot x_i - y_i) x_i$.

    **Fields:** `rates`: $\eta_t$ of each step. `times`: How often the algorithm goes
    through the rates.
    """

    rates: Float[Array, " step"]
    times: int = eqx.field(static=True)

    def __init__(self, rates: Numbers, times: int = 1):
        self.rates, self.times = _each_step("rates", rates, times), times

    def __call__(self, x: Points, y: Values, query: Float[Array, " dim"]):
        check_example(x, y, query)

        def step(w: Array, rate: Array) -> tuple[Array, Array]:
            w = w - rate / len(y) * (x @ w - y) @ x
            return w, w @ query

        rates = jnp.tile(self.rates, self.times)
        return from_zero(jax.lax.scan(step, jnp.zeros_like(query), rates)[1])


class GDPlusPlus(eqx.Module):
    r"""Gradient descent whose points also move (von Oswald et al. 2023, section 4).

    After each step, $x \leftarrow (I - \gamma_t \sum_i x_i x_i^\top) x$ for all points
    and the query.

    **Fields:** `rates`: $\eta_t$ of each step. `curvatures`: $\gamma_t$ of each step.
    `times`: How often the algorithm goes through both.
    """

    rates: Float[Array, " step"]
    curvatures: Float[Array, " step"]
    times: int = eqx.field(static=True)

    def __init__(self, rates: Numbers, curvatures: Numbers, times: int = 1):
        self.rates = _each_step("rates", rates, times)
        self.curvatures = _each_step("curvatures", curvatures, times)
        self.times = times
        counts = len(self.rates), len(self.curvatures)
        if counts[0] != counts[1]:
            wanted = "rates and curvatures must be of the same steps"
            raise ValueError(f"{wanted}, got {counts[0]} and {counts[1]}")

    def __call__(self, x: Points, y: Values, query: Float[Array, " dim"]):
        check_example(x, y, query)

        def step(carry: Any, pair: Any) -> tuple[Any, Array]:
            x, left, query, prediction = carry
            rate, curvature = pair
            weights = rate / len(left) * left @ x  # Minus the slope of the loss.
            prediction = prediction + weights @ query
            left = left - x @ weights
            moments = x.T @ x
            x, query = (a - curvature * a @ moments for a in (x, query))
            return (x, left, query, prediction), prediction

        start = x, y, query, jnp.zeros((), x.dtype)
        pairs = jnp.tile(jnp.stack([self.rates, self.curvatures], 1), (self.times, 1))
        return from_zero(jax.lax.scan(step, start, pairs)[1])


class Preconditioned(eqx.Module):
    r"""Gradient descent with $w \leftarrow w - \frac{\eta_t}{N} A \sum_i (\ldots) x_i$.

    **Fields:** `rates`: $\eta_t$ of each step. `matrix`: $A$, symmetric. `times`: How
    often the algorithm goes through the rates.
    """

    rates: Float[Array, " step"]
    matrix: Float[Array, "dim dim"]
    times: int = eqx.field(static=True)

    def __init__(
        self, rates: Numbers, matrix: Float[ArrayLike, "dim dim"], times: int = 1
    ):
        self.rates, self.times = _each_step("rates", rates, times), times
        self.matrix = jnp.asarray(matrix, float)
        check_axes(matrix=(self.matrix, "dim dim"))

    def __call__(self, x: Points, y: Values, query: Float[Array, " dim"]):
        check_example(x, y, query)
        check_axes(x=(x, "pair dim"), matrix=(self.matrix, "dim dim"))

        def step(w: Array, rate: Array) -> tuple[Array, Array]:
            w = w - rate / len(y) * self.matrix @ ((x @ w - y) @ x)
            return w, w @ query

        rates = jnp.tile(self.rates, self.times)
        return from_zero(jax.lax.scan(step, jnp.zeros_like(query), rates)[1])


class SteepestDescent(eqx.Module):
    """Gradient descent whose rate minimises each step's loss on the context exactly."""

    steps: int = eqx.field(static=True)

    def __check_init__(self):
        positive("steps", self.steps)

    def __call__(self, x: Points, y: Values, query: Float[Array, " dim"]):
        check_example(x, y, query)

        def step(w: Array, _: None) -> tuple[Array, Array]:
            slope = (x @ w - y) @ x
            moved = x @ slope
            # A slope of zero has nowhere to go.
            scale = jnp.vdot(moved, moved)
            rate = jnp.vdot(slope, slope) / jnp.where(scale > 0, scale, 1)
            w = w - rate * slope
            return w, w @ query

        start = jnp.zeros_like(query)
        return from_zero(jax.lax.scan(step, start, length=self.steps)[1])


def spectral_bound(x: Points) -> Float[Array, ""]:
    r"""The rate $2 / \lambda$ from which gradient descent on a context diverges.

    $\lambda$ is the largest eigenvalue of $X^\top X / N$.
    """
    check_axes(x=(x, "pair dim"))
    return 2 * len(x) / jnp.linalg.norm(x, 2) ** 2


def best_preconditioner(
    covariance: Float[np.ndarray, "dim dim"], context: int, noise: float = 0.0
) -> Float[np.ndarray, "dim dim"]:
    r"""The matrix with which one `Preconditioned` step of rate 1 has the least loss.

    For points $x \sim N(0, \Sigma)$, weights $w \sim N(0, I)$, $N$ pairs and noise
    $\sigma$ it is $(\frac{N + 1}{N} \Sigma + \frac{\operatorname{tr} \Sigma +
    \sigma^2}{N} I)^{-1}$ (Ahn et al. 2023, arXiv 2306.00297, theorem 1, for $\sigma =
    0$).
    """
    check_axes(covariance=(covariance, "dim dim"))
    positive("context", context)
    check_not_negative("noise", noise)
    rest = (np.trace(covariance) + noise**2) / context
    scaled = (context + 1) / context * covariance
    return np.linalg.inv(scaled + rest * np.eye(len(covariance)))


def check_example(x: Array, y: Array, query: Array) -> None:
    """Raises `ValueError` unless these are points, a value for each, and one query."""
    check_axes(x=(x, "pair dim"), y=(y, "pair"), query=(query, "dim"))


def from_zero(after: Float[Array, " step"]) -> Float[Array, " points"]:
    """The predictions with that before the first step, which is 0."""
    return jnp.concatenate([jnp.zeros(1, after.dtype), after])


def _each_step(name: str, values: Numbers, times: int) -> Float[Array, " step"]:
    positive("times", times)
    found = jnp.asarray(values, float)
    if found.ndim != 1 or not found.size:
        wanted = f"{name} must be a number for each step"
        raise ValueError(f"{wanted}, got shape {[*found.shape]}")
    return found
