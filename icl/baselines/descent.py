"""Algorithms that learn a linear map from a context, step by step.

Each is called with one example's pairs and query, and gives the predictions after 0, 1,
… steps: `curve` is the loss of each. A transformer's layers have such a curve, too
(`layer_predictions`). Weights start at zero, and the loss is half the squared error.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from opto.toolkit import run_within

from ..batches import batch
from ..checks import positive
from ..tasks.regression import LinearRegression, RegressionExample


Points = Float[Array, "pair dim"]
Values = Float[Array, " pair"]
Numbers = ArrayLike | Sequence[float]
Algorithm = Callable[[Points, Values, Float[Array, " dim"]], Float[Array, " step"]]
"""The predictions for a query after 0, 1, … steps on the pairs of a context."""


class GradientDescent(eqx.Module):
    r"""$w \leftarrow w - \frac{\eta_t}{N} \sum_i (w \cdot x_i - y_i) x_i$.

    **Fields:** `rates`: $\eta_t$ of each step.
    """

    rates: Float[Array, " step"]

    def __init__(self, rates: Numbers):
        self.rates = _each_step("rates", rates)

    def __call__(self, x: Points, y: Values, query: Float[Array, " dim"]):
        def step(w: Array, rate: Array) -> tuple[Array, Array]:
            w = w - rate / len(y) * (x @ w - y) @ x
            return w, w @ query

        return _from_zero(jax.lax.scan(step, jnp.zeros_like(query), self.rates)[1])


class GDPlusPlus(eqx.Module):
    r"""Gradient descent whose points also move (von Oswald et al. 2023, section 4).

    After each step, $x \leftarrow (I - \gamma_t \sum_i x_i x_i^\top) x$ for all points
    and the query.

    **Fields:** `rates`: $\eta_t$ of each step. `curvatures`: $\gamma_t$ of each step.
    """

    rates: Float[Array, " step"]
    curvatures: Float[Array, " step"]

    def __init__(
        self,
        rates: Numbers,
        curvatures: Numbers,
    ):
        self.rates = _each_step("rates", rates)
        self.curvatures = _each_step("curvatures", curvatures)

    def __call__(self, x: Points, y: Values, query: Float[Array, " dim"]):
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
        return _from_zero(jax.lax.scan(step, start, (self.rates, self.curvatures))[1])


class Preconditioned(eqx.Module):
    r"""Gradient descent with $w \leftarrow w - \frac{\eta_t}{N} A \sum_i (\ldots) x_i$.

    **Fields:** `rates`: $\eta_t$ of each step. `matrix`: $A$, symmetric.
    """

    rates: Float[Array, " step"]
    matrix: Float[Array, "dim dim"]

    def __init__(self, rates: Numbers, matrix: Float[ArrayLike, "dim dim"]):
        self.rates = _each_step("rates", rates)
        self.matrix = jnp.asarray(matrix, float)

    def __call__(self, x: Points, y: Values, query: Float[Array, " dim"]):
        def step(w: Array, rate: Array) -> tuple[Array, Array]:
            w = w - rate / len(y) * self.matrix @ ((x @ w - y) @ x)
            return w, w @ query

        return _from_zero(jax.lax.scan(step, jnp.zeros_like(query), self.rates)[1])


class SteepestDescent(eqx.Module):
    """Gradient descent whose rate minimises each step's loss on the context exactly."""

    steps: int = eqx.field(static=True)

    def __check_init__(self):
        positive("steps", self.steps)

    def __call__(self, x: Points, y: Values, query: Float[Array, " dim"]):
        def step(w: Array, _: None) -> tuple[Array, Array]:
            slope = (x @ w - y) @ x
            moved = x @ slope
            # A slope of zero has nowhere to go.
            scale = jnp.vdot(moved, moved)
            rate = jnp.vdot(slope, slope) / jnp.where(scale > 0, scale, 1)
            w = w - rate * slope
            return w, w @ query

        start = jnp.zeros_like(query)
        return _from_zero(jax.lax.scan(step, start, length=self.steps)[1])


class Ridge(eqx.Module):
    r"""Ridge regression: one step, $w = (X^\top X + \lambda I)^{-1} X^\top y$.

    With $\lambda = \sigma^2$, the noise's variance, it is the Bayes predictor for
    weights $w \sim N(0, I)$. With $\lambda = 0$ it is Newton's step from zero: of the
    weights that fit best, the smallest.

    **Fields:** `penalty`: $\\lambda$, at least 0.
    """

    penalty: Float[Array, ""]

    def __init__(self, penalty: float):
        if not 0 <= penalty < float("inf"):
            raise ValueError(f"penalty must be at least 0 and finite, got {penalty}")
        self.penalty = jnp.asarray(penalty, float)

    def __call__(self, x: Points, y: Values, query: Float[Array, " dim"]):
        left, scales, right = jnp.linalg.svd(x, full_matrices=False)
        kept = scales > 1e-6 * scales.max()
        inverse = jnp.where(kept, scales, 0) / jnp.where(
            kept, scales**2 + self.penalty, 1
        )
        return _from_zero((inverse * (y @ left) @ right @ query)[None])


def predictions(
    algorithm: Algorithm, examples: RegressionExample
) -> Float[Array, "sequence step"]:
    """What an algorithm predicts for a batch's queries, after each step."""

    def one(x: Array, y: Array) -> Float[Array, " step"]:
        return algorithm(x[:-1], y[:-1], x[-1])

    return jax.vmap(one)(examples.x, examples.y)


def layer_predictions(
    model: Any, examples: RegressionExample
) -> Float[Array, "sequence layer"]:
    """What linear self-attention predicts if it is read before and after each layer."""
    sites = ["embed", *(f"blocks.{i}.resid_post" for i in range(model.num_layers))]
    _, record = run_within(model, examples.x, examples.y, record=sites)
    return jnp.stack([-record[site][:, -1, -1] for site in sites], 1)


def curve(
    found: Float[Array, "sequence step"], examples: RegressionExample
) -> Float[Array, " step"]:
    """The loss after each step: half the mean squared error for the queries."""
    return 0.5 * jnp.mean((found - examples.y[:, -1:]) ** 2, 0)


_Fitted = TypeVar("_Fitted", bound=eqx.Module)


def fitted(
    algorithm: _Fitted,
    task: LinearRegression,
    *,
    key: PRNGKeyArray,
    steps: int = 500,
    size: int = 2000,
    rate: float = 0.03,
) -> _Fitted:
    """The algorithm with the numbers that minimise its last step's loss on the task.

    Adam takes `steps` steps on `size` new sequences each, in logarithms of the numbers,
    so they must be positive and stay so. The rate falls to zero.
    """
    logs, structure = eqx.partition(algorithm, eqx.is_inexact_array)
    logs = jax.tree.map(jnp.log, logs)
    optimizer = optax.adam(optax.cosine_decay_schedule(rate, steps))

    @jax.grad
    def slope(logs: Any, key: PRNGKeyArray) -> Float[Array, ""]:
        of: Any = eqx.combine(jax.tree.map(jnp.exp, logs), structure)
        examples = batch(task, size, key=key)
        return curve(predictions(of, examples), examples)[-1]

    def step(carry: Any, key: PRNGKeyArray) -> tuple[Any, None]:
        logs, state = carry
        updates, state = optimizer.update(slope(logs, key), state)
        return (optax.apply_updates(logs, updates), state), None

    start = logs, optimizer.init(logs)
    (logs, _), _ = jax.jit(lambda keys: jax.lax.scan(step, start, keys))(
        jax.random.split(key, steps)
    )
    return eqx.combine(jax.tree.map(jnp.exp, logs), structure)


def spectral_bound(x: Points) -> Float[Array, ""]:
    r"""The rate $2 / \lambda$ from which gradient descent on a context diverges.

    $\lambda$ is the largest eigenvalue of $X^\top X / N$.
    """
    return 2 * len(x) / jnp.linalg.norm(x, 2) ** 2


def _from_zero(after: Float[Array, " step"]) -> Float[Array, " points"]:
    return jnp.concatenate([jnp.zeros(1, after.dtype), after])


def _each_step(name: str, values: Numbers) -> Float[Array, " step"]:
    found = jnp.asarray(values, float)
    if found.ndim != 1 or not found.size:
        wanted = f"{name} must be a number for each step"
        raise ValueError(f"{wanted}, got shape {[*found.shape]}")
    return found
