"""What a baseline outside of JAX is."""

import abc
import importlib.util
from typing import Any

import jax
import numpy as np

from ._learner import FunctionLearner


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
        self.check()

    @abc.abstractmethod
    def check(self) -> None:
        """Raises `ValueError` for settings that cannot be."""

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
