"""In-context linear regression by gradient descent (von Oswald et al., 2023)."""

import numpy as np

from ..checks import instance
from ..tasks.regression import FreshTeacher, LinearRegression, NoisyValues, RandomPairs


def one_step(task: LinearRegression) -> tuple[float, float]:
    r"""The best learning rate of one step of gradient descent from 0, and its loss.

    The step uses the mean over the context of half the squared error. The loss is that
    of `LinearRegression`. Let $\Sigma$ be the covariance of a point $x$, $\tau$ the
    weights' standard deviation, $N$ the number of pairs, and $\sigma^2$ the variance of
    the noise on a value, including that of `NoisyValues`. With $S = X^\top X / N$, let

    $$t = E \operatorname{tr} \Sigma S^2 = \frac{1}{N} E[(x^\top \Sigma x) |x|^2] +
    \frac{N - 1}{N} \operatorname{tr} \Sigma^3.$$

    The best rate is $\eta^* = \tau^2 \operatorname{tr} \Sigma^2 / (\tau^2 t + \sigma^2
    \operatorname{tr} \Sigma^2 / N)$, and its loss is $\frac{\tau^2}{2}
    (\operatorname{tr} \Sigma - \eta^* \operatorname{tr} \Sigma^2)$.

    With `RandomPairs` from a `FreshTeacher`, a share $p$ of the pairs has other
    weights. Then $\operatorname{tr} \Sigma^2$ is multiplied by $1 - p$ in the numerator
    and in the loss, and $\operatorname{tr} \Sigma^3$ in $t$ by $(1 - p)^2 + p^2$: only
    pairs of the same weights agree.

    **Returns:** The learning rate $\eta^*$, and the loss.

    **Raises:** `ValueError` for pairs from another source.
    """
    right, curvature = _terms(task)
    rate = right / curvature
    return rate, one_step_loss(task, rate)


def one_step_loss(task: LinearRegression, rate: float) -> float:
    """The loss after one step with any learning rate.

    **Raises:** `ValueError` as `one_step`.
    """
    right, curvature = _terms(task)
    first = task.input_scale**2 * task.input_distribution.moments(task.dim).first
    zero = task.weight_scale**2 * first
    return 0.5 * (zero - 2 * rate * right + rate**2 * curvature)


def _terms(task: LinearRegression) -> tuple[float, float]:
    """Twice the loss is that of 0, minus twice the rate times the first, plus the
    square of the rate times the second."""
    instance("task", task, LinearRegression)
    noise, replaced = task.noise**2, 0.0
    if isinstance(task.pair_noise, NoisyValues):
        noise += task.pair_noise.probability * task.pair_noise.std**2
    elif isinstance(task.pair_noise, RandomPairs):
        if not isinstance(task.pair_noise.source, FreshTeacher):
            wanted = "pair_noise must take its pairs from FreshTeacher"
            raise ValueError(f"{wanted}, got {task.pair_noise.source}")
        replaced = task.pair_noise.probability
    moments = task.input_distribution.moments(task.dim)
    powers = np.array([2, 4, 6, 6])
    _, second, third, fourth = task.input_scale**powers * np.array(moments)
    count, var = task.context, task.weight_scale**2
    same = (1 - replaced) ** 2 + replaced**2
    trace = (fourth + (count - 1) * same * third) / count
    right = var * (1 - replaced) * second
    return float(right), float(var * trace + noise * second / count)
