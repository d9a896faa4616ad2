"""Least squares and ridge regression."""

import equinox as eqx

from ...checks import check_not_negative
from ..least_squares import Ridge
from ._learner import ContextLearner


class LeastSquares(ContextLearner):
    r"""The linear function that minimises $|X w - y|^2 + \lambda |w|^2$.

    With $\lambda = 0$, the smallest of those that fit best: on linear functions without
    noise its error is $(1 - k/d)_+$ of the mean square after $k$ pairs. With $\lambda =
    \sigma^2$, it is the Bayes predictor for noise of variance $\sigma^2$.

    **Fields:** `penalty`: $\lambda$, at least 0.
    """

    penalty: float = eqx.field(static=True, default=0.0)

    def __check_init__(self):
        check_not_negative("penalty", self.penalty)

    def answer(self, xs, ys, known, query):
        # Pairs that are 0 do not change the solution.
        return Ridge(self.penalty)(xs, ys, query)[1]
