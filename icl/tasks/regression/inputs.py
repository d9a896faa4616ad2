"""Distributions of the points, with the moments that closed forms need."""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ...checks import check_scale
from ...random import normal, uniform


class Moments(NamedTuple):
    r"""Numbers about a point $x$ with mean 0 and covariance $\Sigma$."""

    first: float
    r"""$\operatorname{tr} \Sigma$."""
    second: float
    r"""$\operatorname{tr} \Sigma^2$."""
    third: float
    r"""$\operatorname{tr} \Sigma^3$."""
    fourth: float
    r"""$E[(x^\top \Sigma x) |x|^2]$."""


@dataclasses.dataclass(frozen=True)
class UniformInputs:
    """Each component of a point is independent and uniform in ± `bound`."""

    bound: float = 0.5
    """Above 0. The published losses use ±1/2."""

    def __post_init__(self):
        check_scale("bound", self.bound)

    def moments(self, dim: int) -> Moments:
        return _independent(dim, self.bound**2 / 3, self.bound**4 / 5)

    def sample(self, shape: tuple[int, ...], *, key: PRNGKeyArray):
        return uniform(key, shape, minval=-self.bound, maxval=self.bound)


@dataclasses.dataclass(frozen=True)
class GaussianInputs:
    """Each component of a point is independent and normal around 0."""

    std: float = 1.0
    """Standard deviation, above 0."""

    def __post_init__(self):
        check_scale("std", self.std)

    def moments(self, dim: int) -> Moments:
        return _independent(dim, self.std**2, 3 * self.std**4)

    def sample(self, shape: tuple[int, ...], *, key: PRNGKeyArray):
        return self.std * normal(key, shape)


@dataclasses.dataclass(frozen=True)
class CorrelatedInputs:
    """Points are normal around 0 with a given covariance matrix."""

    covariance: tuple[tuple[float, ...], ...]
    """Its rows: symmetric and positive definite, with a row for each component."""

    def __post_init__(self):
        matrix = self._matrix
        if matrix.ndim != 2 or not np.array_equal(matrix, matrix.T):
            got = f"got {self.covariance}"
            raise ValueError(f"covariance must be square and symmetric, {got}")
        least = np.linalg.eigvalsh(matrix)[0]
        if not 0 < least < np.inf:
            wanted = "covariance must be positive definite"
            raise ValueError(f"{wanted}, got the eigenvalue {least:.3g}")

    @property
    def _matrix(self) -> Float[np.ndarray, "dim dim"]:
        return np.array(self.covariance, np.float64)

    def moments(self, dim: int) -> Moments:
        once = self._matrix
        twice, thrice = once @ once, once @ once @ once
        first, second, third = (float(np.trace(x)) for x in (once, twice, thrice))
        return Moments(first, second, third, 2 * third + second * first)

    def sample(self, shape: tuple[int, ...], *, key: PRNGKeyArray):
        root = jnp.asarray(np.linalg.cholesky(self._matrix), float)
        return normal(key, shape) @ root.T


InputDistribution = UniformInputs | GaussianInputs | CorrelatedInputs


def _independent(dim: int, variance: float, fourth: float) -> Moments:
    """Those of `dim` components with this variance and mean fourth power."""
    first, second, third = (dim * variance**power for power in (1, 2, 3))
    square = dim * (fourth + (dim - 1) * variance**2)
    return Moments(first, second, third, variance * square)
