r"""How much a model's predictions are those of gradient descent on the context.

For tasks of `icl.tasks.regression` (von Oswald et al. 2023, section 3). Descent starts
at zero and does `steps` steps of one rate. As there, the gradient of a prediction in
the query's point stands for the weights that a learner has.

Arguments of all: `steps`; `rate` for the mean over the context of half the squared
error, where `None` is the rate with the least loss on the batch
(`icl.baselines.curves.best_rate`); and `curvature`, GD++'s $\gamma$, which needs a
`rate`.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..baselines.curves import best_rate
from ..baselines.descent import Algorithm, GDPlusPlus, GradientDescent
from ..checks import check_scale, positive
from ..tasks.regression import RegressionExample
from ._measure import OfModel
from ._regression import answers, check_rate, of_regression, sensitivities
from ._text import register


@register
def descent_difference(
    steps: int = 1,
    rate: float | None = None,
    curvature: float = 0.0,
    power: float = 1.0,
) -> OfModel:
    r"""How far predictions are from those of gradient descent, a number of at least 0.

    $(\operatorname{mean} |\hat y - \hat y_\text{GD}|^p)^{1/p}$ over queries.

    **Arguments:** `power`: $p$. 1 is the mean distance, 2 its root mean square.
    """
    _check(steps, rate, curvature)
    check_scale("power", power)

    def fn(model: Any, batch: RegressionExample, edits: tuple) -> Array:
        there = _each(_algorithm(batch, steps, rate, curvature), batch)[0]
        differences = jnp.abs(answers(model, batch, edits) - there)
        return jnp.mean(differences**power) ** (1 / power)

    return of_regression(fn, "", "distance of predictions\nfrom descent")


@register
def descent_cosine(
    steps: int = 1, rate: float | None = None, curvature: float = 0.0
) -> OfModel:
    """The cosine of a model's weights in effect and descent's, in [-1, 1].

    The mean over queries. For one step it does not depend on `rate`.
    """
    _check(steps, rate, curvature)

    def fn(model: Any, batch: RegressionExample, edits: tuple) -> Array:
        ours = sensitivities(model, batch, edits)
        there = _each(_algorithm(batch, steps, rate, curvature), batch)[1]
        norms = jnp.linalg.norm(ours, axis=-1) * jnp.linalg.norm(there, axis=-1)
        return jnp.mean(jnp.sum(ours * there, -1) / norms)

    return of_regression(fn, "", "cosine with descent's weights")


@register
def descent_distance(
    steps: int = 1, rate: float | None = None, curvature: float = 0.0
) -> OfModel:
    """The L2 distance of a model's weights in effect and descent's.

    The mean over queries.
    """
    _check(steps, rate, curvature)

    def fn(model: Any, batch: RegressionExample, edits: tuple) -> Array:
        there = _each(_algorithm(batch, steps, rate, curvature), batch)[1]
        apart = sensitivities(model, batch, edits) - there
        return jnp.mean(jnp.linalg.norm(apart, axis=-1))

    return of_regression(fn, "", "L2 distance from descent's weights")


@register
def descent_rate(steps: int = 1) -> OfModel:
    """The rate with which gradient descent has the least loss on the batch.

    The model has no part in it; the other measures use it if no rate is given.
    """
    positive("steps", steps)
    fn = lambda model, batch, edits: best_rate(batch, steps)
    label = f"best rate of {steps} steps"
    return of_regression(fn, "", label, needs=(), reads="weights")


def _each(
    algorithm: Algorithm, batch: RegressionExample
) -> tuple[Float[Array, "sequence query"], Float[Array, "sequence query dim"]]:
    """An algorithm's predictions for all queries, and their gradients in the points."""

    def last(query: Array, x: Array, y: Array) -> Float[Array, ""]:
        return algorithm(x, y, query)[-1]

    def one(x: Array, y: Array, queries: Array) -> tuple[Array, Array]:
        return jax.vmap(lambda q: jax.value_and_grad(last)(q, x, y))(queries)

    return jax.vmap(one)(batch.context_x, batch.context_y, batch.query_x)


def _algorithm(
    batch: RegressionExample, steps: int, rate: float | None, curvature: float
) -> Algorithm:
    if rate is None:
        return GradientDescent(best_rate(batch, steps)[None], steps)
    if not curvature:
        return GradientDescent([rate], steps)
    return GDPlusPlus([rate], [curvature], steps)


def _check(steps: int, rate: float | None, curvature: float) -> None:
    positive("steps", steps)
    check_rate(rate, curvature)
