"""Least squares on a context: in closed form, and by Newton's iteration.

They are called like the algorithms of `icl.baselines.descent`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..checks import check_not_negative, instance, positive
from ..tasks.regression import LinearRegression
from .descent import check_example, from_zero, Points, Values


class Ridge(eqx.Module):
    r"""Ridge regression: one step, $w = (X^\top X + \lambda I)^{-1} X^\top y$.

    With $\lambda = 0$ it is Newton's step from zero: of the
    weights that fit best, the smallest.

    **Fields:** `penalty`: $\lambda$, at least 0.
    """

    penalty: Float[Array, ""]

    def __init__(self, penalty: float):
        check_not_negative("penalty", penalty)
        self.penalty = jnp.asarray(penalty, float)

    def __call__(self, x: Points, y: Values, query: Float[Array, " dim"]):
        check_example(x, y, query)
        left, scales, right = jnp.linalg.svd(x, full_matrices=False)
        kept = scales > 1e-6 * scales.max()
        inverse = jnp.where(kept, scales, 0) / jnp.where(
            kept, scales**2 + self.penalty, 1
        )
        return from_zero((inverse * (y @ left) @ right @ query)[None])


class NewtonIteration(eqx.Module):
    r"""Least squares whose inverse is found by Newton's iteration (Schulz 1933).

    $w_t = M_t X^\top y / N$ with $M_{t+1} = 2 M_t - M_t S M_t$, $S = X^\top X / N$ and
    $M_0 = S / \lambda^2$, where $\lambda$ is the largest eigenvalue of $S$. Each step
    doubles the number of correct digits; gradient descent only adds some (Fu et al.
    2023, arXiv 2310.17086). The limit is `Ridge(0.0)`, one exact step of Newton.

    **Fields:** `steps`: The first has $M_0$.
    """

    steps: int = eqx.field(static=True)

    def __check_init__(self):
        positive("steps", self.steps)

    def __call__(self, x: Points, y: Values, query: Float[Array, " dim"]):
        check_example(x, y, query)
        moments, slope = x.T @ x / len(y), y @ x / len(y)

        def step(inverse: Array, _: None) -> tuple[Array, Array]:
            prediction = (inverse @ slope) @ query
            return 2 * inverse - inverse @ moments @ inverse, prediction

        start = moments / jnp.linalg.norm(moments, 2) ** 2
        return from_zero(jax.lax.scan(step, start, length=self.steps)[1])


def bayes(task: LinearRegression) -> Ridge:
    r"""The Bayes predictor of a task: no other has less loss.

    Weights are $w \sim N(0, \tau^2 I)$ and noise is Gaussian with variance $\sigma^2$,
    so it is ridge regression with $\lambda = \sigma^2 / \tau^2$.

    **Raises:** `ValueError` for a task with `pair_noise`: there it is not linear.
    """
    instance("task", task, LinearRegression)
    if task.pair_noise is not None:
        got = type(task.pair_noise).__name__
        raise ValueError(f"pair_noise must be None for ridge regression, got {got}")
    return Ridge((task.noise / task.weight_scale) ** 2)
