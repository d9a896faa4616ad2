"""Decision trees that scikit-learn learns, on the host."""

from typing import Any

import equinox as eqx

from ...checks import check_scale, positive
from ._host import HostLearner


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
