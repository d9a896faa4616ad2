"""Decision trees that scikit-learn learns, on the host."""

import abc
import importlib.util
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from opto import identity, Tap

from ...checks import check_prompt, check_scale, positive


class HostLearner(eqx.Module):
    """The base of learners outside of JAX; the compiled program calls them.

    They are called like a model, see `ContextLearner`, but each context takes some
    milliseconds.
    """

    @abc.abstractmethod
    def regressor(self) -> Any:
        """A scikit-learn regressor that is not fitted yet."""

    def __check_init__(self):
        if importlib.util.find_spec("sklearn") is None:
            wanted = "needs scikit-learn: make EXTRA=baselines, or pip install"
            raise ValueError(f"{type(self).__name__} {wanted} scikit-learn")
        self.check()

    @abc.abstractmethod
    def check(self) -> None:
        """Raises `ValueError` for settings that cannot be."""

    def __call__(
        self,
        xs: Float[Array, "point dim"],
        ys: Float[Array, " point"],
        *,
        tap: Tap = identity,
    ) -> Float[Array, " point"]:
        """The prediction at each point; 0 for the first one. `tap` is not used."""
        check_prompt(xs, ys)
        shape = jax.ShapeDtypeStruct(ys.shape, ys.dtype)
        return jax.pure_callback(
            self._predict, shape, xs, ys, vmap_method="expand_dims"
        )

    def _predict(self, xs: Any, ys: Any) -> np.ndarray:
        xs, ys = np.asarray(xs), np.asarray(ys)
        lead = np.broadcast_shapes(xs.shape[:-2], ys.shape[:-1])
        xs = np.broadcast_to(xs, (*lead, *xs.shape[-2:]))
        ys = np.broadcast_to(ys, (*lead, ys.shape[-1]))
        found = np.zeros(ys.shape, ys.dtype)
        for place in np.ndindex(*lead):
            for at in range(1, ys.shape[-1]):
                fitted = self.regressor().fit(xs[place][:at], ys[place][:at])
                found[place][at] = fitted.predict(xs[place][at : at + 1])[0]
        return found


class GreedyTree(HostLearner):
    """A regression tree that is split greedily (CART, Breiman et al. 1984).

    **Fields:** `depth`: The largest depth; `None` splits until each leaf has one value.
    """

    depth: int | None = eqx.field(static=True, default=None)

    def check(self) -> None:
        if self.depth is not None:
            positive("depth", self.depth)

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

    def check(self) -> None:
        positive("rounds", self.rounds)
        positive("depth", self.depth)
        check_scale("rate", self.rate)
        if self.rate > 1:
            raise ValueError(f"rate must be at most 1, got {self.rate}")

    def regressor(self) -> Any:
        from sklearn.ensemble import GradientBoostingRegressor

        return GradientBoostingRegressor(
            n_estimators=self.rounds,
            max_depth=self.depth,
            learning_rate=self.rate,
            random_state=0,
        )
