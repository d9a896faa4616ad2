"""In-context linear regression by gradient descent (von Oswald et al., 2023)."""

from ..tasks.regression import LinearRegression


def one_step(task: LinearRegression) -> tuple[float, float]:
    r"""The best learning rate of one step of gradient descent from 0, and its loss.

    The step uses the mean over the context of half the squared error. The loss is that
    of `LinearRegression`. Let $s^2$ be the variance and $m$ the fourth moment of a
    component, $d$ the number of components, $N$ the number of pairs, and $\sigma$ the
    noise. Then

    $$t = \frac{d}{N} (m + (d - 1) s^4) + \frac{N - 1}{N} d s^4$$

    is the mean of $\operatorname{tr} S^2$ with $S = X^\top X / N$. The best rate is
    $\eta^* = d s^2 / (t + d s^2 \sigma^2 / N)$, and its loss is $\frac{s^2}{2} (d -
    \eta^* d s^2)$.

    **Returns:** The learning rate $\eta^*$, and the loss.
    """
    d, count, var = task.dim, task.context, task.input_distribution.variance
    square = task.input_distribution.fourth_moment + (d - 1) * var**2
    trace = (d * square + (count - 1) * d * var**2) / count
    rate = d * var / (trace + d * var * task.noise**2 / count)
    return rate, 0.5 * var * (d - rate * d * var)
