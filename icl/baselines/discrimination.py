"""Predictors of the query's label from a context of labelled points.

Each gives log-odds of label 1 for one example, in nats. The exact Bayes predictor is
`log_odds` of the tasks in `icl.tasks.discrimination`.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..checks import check_axes, check_labelled, check_labels
from ..tasks.discrimination import prior_log_odds


def linear_discriminant(
    context_x: Float[Array, "pair dim"],
    context_y: Int[Array, " pair"],
    query_x: Float[Array, " dim"],
    *,
    label_prior: float = 0.5,
) -> Float[Array, ""]:
    r"""The log-odds with the classes' means from the context.

    $(m_1 - m_0) \cdot (x - (m_1 + m_0) / 2)$, for unit covariance (Fisher 1936), plus
    the log-odds of the prior. Only the prior's if a class has no points.

    **Arguments:** `label_prior`: The probability of label 1 before the query is seen,
    as in the task.
    """
    check_labelled(context_x, context_y, query_x)
    mean0, count0 = _mean(context_x, context_y == 0)
    mean1, count1 = _mean(context_x, context_y == 1)
    found = jnp.vdot(mean1 - mean0, query_x - 0.5 * (mean0 + mean1))
    found = jnp.where((count0 > 0) & (count1 > 0), found, 0.0)
    return found + prior_log_odds(label_prior)


def quadratic_discriminant(
    context_x: Float[Array, "pair dim"],
    context_y: Int[Array, " pair"],
    query_x: Float[Array, " dim"],
    *,
    label_prior: float = 0.5,
) -> Float[Array, ""]:
    r"""The log-odds with the classes' variances from the context.

    For points around 0 with one variance per class, $d \ln(\sigma_0 / \sigma_1) +
    |x|^2 (\sigma_0^{-2} - \sigma_1^{-2}) / 2$, plus the log-odds of the prior. Only the
    prior's if a class has no points.

    **Arguments:** `label_prior`: As for `linear_discriminant`.
    """
    check_labelled(context_x, context_y, query_x)
    squares = jnp.mean(context_x**2, -1, keepdims=True)
    var0, count0 = _mean(squares, context_y == 0)
    var1, count1 = _mean(squares, context_y == 1)
    both = (count0 > 0) & (count1 > 0)
    var0, var1 = (jnp.where(both, var[0], 1.0) for var in (var0, var1))
    found = 0.5 * len(query_x) * jnp.log(var0 / var1)
    found = found + 0.5 * jnp.sum(query_x**2) * (1 / var0 - 1 / var1)
    return found + prior_log_odds(label_prior)


def kernel_regression(
    context_x: Float[Array, "pair dim"],
    context_y: Int[Array, " pair"],
    query_x: Float[Array, " dim"],
    *,
    scale: float,
) -> Float[Array, ""]:
    r"""$\sum_i \operatorname{softmax}_i(\beta\, x \cdot x_i) (2 y_i - 1)$, in [-1, 1].

    An estimate of Nadaraya (1964) and Watson (1964), with the kernel of softmax
    attention. It is a mean label, not a log-odds.

    **Arguments:**

    - `scale`: $\beta$.
    """
    check_labelled(context_x, context_y, query_x)
    return weighted_labels(scale * context_x @ query_x, context_y)


def weighted_labels(
    scores: Float[Array, " pair"], context_y: Int[Array, " pair"]
) -> Float[Array, ""]:
    r"""$\sum_i \operatorname{softmax}_i(s) (2 y_i - 1)$ for scores $s$, in [-1, 1]."""
    check_axes(scores=(scores, "pair"), context_y=(context_y, "pair"))
    check_labels("context_y", context_y)
    weights = jax.nn.softmax(scores)
    return weights @ (2 * context_y - 1).astype(weights.dtype)


def _mean(
    x: Float[Array, "pair dim"], chosen: Array
) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
    """The mean of the chosen points, and their number; 0 if there are none."""
    weights = chosen.astype(x.dtype)
    count = weights.sum()
    return weights @ x / jnp.maximum(count, 1.0), count
