"""Linear regression with an absolute penalty."""

from typing import Any

import equinox as eqx

from ...checks import check_scale
from ._host import HostLearner


class Lasso(HostLearner):
    r"""The weights that minimise $\frac{1}{2k} |X w - y|^2 + \alpha |w|_1$.

    There is no intercept (Tibshirani 1996). scikit-learn's coordinate descent finds
    them; it warns where it stops before. Below $\alpha$ = 1e-3, contexts with fewer
    pairs than components can take a tenth of a second each. There, Garg et al. (2022)
    stop earlier, with other weights: scikit-learn's tolerance is 1e-4 by default.

    **Fields:** `penalty`: $\alpha$, above 0. Garg et al. find .01 best.
    """

    penalty: float = eqx.field(static=True, default=0.01)

    def check(self) -> None:
        check_scale("penalty", self.penalty)

    def regressor(self) -> Any:
        from sklearn.linear_model import Lasso as Regressor

        # Not LassoLars: it can stop far from the minimum without a warning.
        return Regressor(
            self.penalty, fit_intercept=False, tol=1e-8, max_iter=1_000_000
        )
