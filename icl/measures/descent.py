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
from ..checks import check_not_negative, check_scale, positive
from ..tasks.regression import RegressionExample
from ._measure import OfModel
from ._regression import answers, check_regression, sensitivities
from ._text import register


_FORWARDS: Any = {"needs": ("blocks",)}


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

    def fn(model: Any, task: Any, batch: Any, edits: tuple) -> Array:
        algorithm = _algorithm(batch, steps, rate, curvature)
        there = _each(algorithm, batch)[0]
        differences = jnp.abs(answers(model, batch, edits) - there)
        return jnp.mean(differences**power) ** (1 / power)

    return OfModel(fn, "", "distance of predictions\nfrom descent", **_FORWARDS)


@register
def descent_cosine(
    steps: int = 1, rate: float | None = None, curvature: float = 0.0
) -> OfModel:
    """The cosine of a model's weights in effect and descent's, in [-1, 1].

    The mean over queries. For one step it does not depend on `rate`.
    """
    _check(steps, rate, curvature)

    def fn(model: Any, task: Any, batch: Any, edits: tuple) -> Array:
        ours, there = _both(model, batch, edits, (steps, rate, curvature))
        norms = jnp.linalg.norm(ours, axis=-1) * jnp.linalg.norm(there, axis=-1)
        return jnp.mean(jnp.sum(ours * there, -1) / norms)

    return OfModel(fn, "", "cosine with descent's weights", **_FORWARDS)


@register
def descent_distance(
    steps: int = 1, rate: float | None = None, curvature: float = 0.0
) -> OfModel:
    """The L2 distance of a model's weights in effect and descent's.

    The mean over queries.
    """
    _check(steps, rate, curvature)

    def fn(model: Any, task: Any, batch: Any, edits: tuple) -> Array:
        ours, there = _both(model, batch, edits, (steps, rate, curvature))
        return jnp.mean(jnp.linalg.norm(ours - there, axis=-1))

    return OfModel(fn, "", "L2 distance from descent's weights", **_FORWARDS)


@register
def descent_rate(steps: int = 1) -> OfModel:
    """The rate with which gradient descent has the least loss on the batch.

    The model has no part in it; the other measures use it if no rate is given.
    """
    _check(steps, None, 0.0)

    def fn(model: Any, task: Any, batch: Any, edits: tuple) -> Array:
        check_regression(batch)
        return best_rate(batch, steps)

    return OfModel(fn, "", f"best rate of {steps} steps", reads="weights")


def _both(
    model: Any, batch: Any, edits: tuple, settings: tuple[int, float | None, float]
) -> tuple[Float[Array, "sequence query dim"], Float[Array, "sequence query dim"]]:
    """The weights in effect: the model's, and the algorithm's."""
    algorithm = _algorithm(batch, *settings)
    return sensitivities(model, batch, edits), _each(algorithm, batch)[1]


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
    batch: Any, steps: int, rate: float | None, curvature: float
) -> Algorithm:
    check_regression(batch)
    if rate is None:
        return GradientDescent(best_rate(batch, steps)[None], steps)
    if not curvature:
        return GradientDescent([rate], steps)
    return GDPlusPlus([rate], [curvature], steps)


def _check(steps: int, rate: float | None, curvature: float) -> None:
    positive("steps", steps)
    if rate is None:
        if curvature:
            raise ValueError(f"curvature={curvature} needs a rate, got None")
    else:
        check_scale("rate", rate)
    check_not_negative("curvature", curvature)
