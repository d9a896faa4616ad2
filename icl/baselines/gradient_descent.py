"""In-context linear regression by gradient descent (von Oswald et al., 2023)."""

from ..checks import instance
from ..tasks.regression import LinearRegression, NoisyValues


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

    **Returns:** The learning rate $\eta^*$, and the loss.

    **Raises:** `ValueError` for other noise on pairs: their points differ, too.
    """
    instance("task", task, LinearRegression)
    noise = task.noise**2
    if isinstance(task.pair_noise, NoisyValues):
        noise += task.pair_noise.probability * task.pair_noise.std**2
    elif task.pair_noise is not None:
        got = type(task.pair_noise).__name__
        wanted = "pair_noise must be None or NoisyValues for a closed form"
        raise ValueError(f"{wanted}, got {got}")
    moments = task.input_distribution.moments(task.dim)
    scale, var = task.input_scale, task.weight_scale**2
    first, second, third, fourth = (
        scale**power * value for power, value in zip((2, 4, 6, 6), moments, strict=True)
    )
    count = task.context
    trace = (fourth + (count - 1) * third) / count
    rate = var * second / (var * trace + noise * second / count)
    return rate, 0.5 * var * (first - rate * second)
