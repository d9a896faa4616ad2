"""Learners of scikit-learn, which the compiled program calls on the host."""

import abc
import importlib.util
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ._learners import FunctionLearner


class HostLearner(FunctionLearner):
    """The base of learners of scikit-learn; the compiled program calls them.

    Each context takes some milliseconds. They compute in float64.
    """

    @abc.abstractmethod
    def regressor(self) -> Any:
        """A scikit-learn regressor that is not fitted yet."""

    def __check_init__(self):
        if importlib.util.find_spec("sklearn") is None:
            wanted = "needs scikit-learn: make EXTRA=baselines, or pip install"
            raise ValueError(f"{type(self).__name__} {wanted} scikit-learn")

    def predictions(self, xs, ys):
        shape = jax.ShapeDtypeStruct(ys.shape, ys.dtype)
        return jax.pure_callback(
            self._predict, shape, xs, ys, vmap_method="expand_dims"
        )

    def _predict(self, xs: Any, ys: Any) -> np.ndarray:
        kind = ys.dtype
        xs, ys = np.asarray(xs, float), np.asarray(ys, float)
        lead = np.broadcast_shapes(xs.shape[:-2], ys.shape[:-1])
        xs = np.broadcast_to(xs, (*lead, *xs.shape[-2:]))
        ys = np.broadcast_to(ys, (*lead, ys.shape[-1]))
        found = np.zeros(ys.shape, kind)
        for place in np.ndindex(*lead):
            for at in range(1, ys.shape[-1]):
                fitted = self.regressor().fit(xs[place][:at], ys[place][:at])
                found[place][at] = fitted.predict(xs[place][at : at + 1])[0]
        return found


class Lasso(HostLearner):
    r"""The weights that minimise $\frac{1}{2k} |X w - y|^2 + \alpha |w|_1$.

    There is no intercept (Tibshirani 1996). scikit-learn's coordinate descent finds
    them; it warns where it stops before. Below $\alpha$ = 1e-3, contexts with fewer
    pairs than components can take a tenth of a second each. There, Garg et al. (2022)
    stop earlier, with other weights: scikit-learn's tolerance is 1e-4 by default.

    **Fields:** `penalty`: $\alpha$, above 0. Garg et al. find .01 best.
    """

    penalty: float = eqx.field(static=True, default=0.01)

    def regressor(self) -> Any:
        from sklearn.linear_model import Lasso as Regressor

        # Not LassoLars: it can stop far from the minimum without a warning.
        return Regressor(
            self.penalty, fit_intercept=False, tol=1e-8, max_iter=1_000_000
        )


class GreedyTree(HostLearner):
    """A regression tree that is split greedily (CART, Breiman et al. 1984).

    **Fields:** `depth`: The largest depth; `None` splits until each leaf has one value.
    """

    depth: int | None = eqx.field(static=True, default=None)

    def regressor(self) -> Any:
        from sklearn.tree import DecisionTreeRegressor

        return DecisionTreeRegressor(max_depth=self.depth, random_state=0)


class BoostedTrees(HostLearner):
    """Gradient boosting of regression trees (Friedman 2001).

    Garg et al. (2022) use XGBoost, a relative with other details.

    **Fields:** `rounds`: The number of trees. `depth`: Of each. `rate`: The learning
    rate.
    """

    rounds: int = eqx.field(static=True, default=50)
    depth: int = eqx.field(static=True, default=4)
    rate: float = eqx.field(static=True, default=0.1)

    def regressor(self) -> Any:
        from sklearn.ensemble import GradientBoostingRegressor

        return GradientBoostingRegressor(
            n_estimators=self.rounds,
            max_depth=self.depth,
            learning_rate=self.rate,
            random_state=0,
        )
