r"""Gradient descent in expectation: exact losses and best rates on Gaussian tasks.

Points are $x \sim N(0, s^2 I)$, weights $w \sim N(0, u^2 I)$, and values have noise
$\sigma$. After $k$ steps from zero, descent has the weights $q(H) X^\top y / N$ with
$H = X^\top X / N$ and $1 - \lambda q(\lambda) = \prod_t (1 - \eta_t \lambda)$. So its
expected loss is an integral over the mean distribution of the eigenvalues of $H$, whose
moments are known exactly. With many steps, a mean over drawn tasks is far off: rare
contexts with a large eigenvalue decide it.
"""

import dataclasses
import functools
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import optimize

from ..checks import instance, positive
from ..tasks.regression import GaussianInputs, LinearRegression


Rates = Float[np.ndarray, " step"]


@dataclasses.dataclass(frozen=True)
class ExpectedDescent:
    """Descent on the tasks of a `LinearRegression` with independent normal points.

    Rates are as for `icl.baselines.descent.GradientDescent`.

    **Raises:** `ValueError` for a task with other points, or with `pair_noise`.
    """

    task: LinearRegression

    def __post_init__(self):
        instance("task", self.task, LinearRegression)
        gaussian = isinstance(self.task.input_distribution, GaussianInputs)
        if not gaussian or self.task.pair_noise is not None:
            wanted = "task must have GaussianInputs and no pair_noise"
            raise ValueError(f"{wanted}, got {self.task}")

    def loss(self, rates: Rates) -> float:
        """Half the expected squared error of a query after all steps."""
        nodes, weights = self._spectrum(len(rates))
        left = np.prod(1 - np.multiply.outer(rates, nodes), axis=0)
        signal, noise = self._parts
        errors = signal * left**2 + noise * (1 - left) ** 2 / nodes
        return float(np.sum(weights * errors))

    def best_rate(self, steps: int) -> float:
        """The one rate with which `steps` steps have the least loss."""
        positive("steps", steps)
        (first,) = self.best_rates(1)
        if steps == 1:
            return float(first)
        loss = lambda rate: self.loss(np.full(steps, rate))
        # The search walks downhill from the best rate of one step.
        found: Any = optimize.minimize_scalar(loss, bracket=(first / 2, first))
        return float(found.x)

    def best_rates(self, steps: int) -> Rates:
        r"""The rates, one for each step, that have the least loss together, ascending.

        The loss is a square in the coefficients of $q$, so they solve a linear problem.
        The rates are the inverse roots of $1 - \lambda q(\lambda)$.

        **Raises:** `ValueError` if these are not all positive, as with much noise: then
        no rates have the loss of the best $q$.
        """
        positive("steps", steps)
        nodes, weights = self._spectrum(steps)
        signal, noise = self._parts
        raised, basis = _orthonormal(nodes, weights, steps)
        rows = np.sqrt(weights)[:, None] * basis[:, :steps]
        fit = [np.sqrt(signal) * nodes[:, None] * rows]
        fit += [np.sqrt(noise * nodes)[:, None] * rows]
        target = [np.sqrt(signal * weights), np.zeros(len(nodes))]
        of_q = np.linalg.lstsq(np.concatenate(fit), np.concatenate(target))[0]
        # 1 - lambda q(lambda) in the basis, and its roots as eigenvalues.
        whole = -raised @ of_q
        whole[0] += 1
        matrix = raised[:steps].copy()
        matrix[:, -1] -= raised[steps, -1] / whole[steps] * whole[:steps]
        roots = np.linalg.eigvals(matrix)
        if np.any(np.abs(roots.imag) > 1e-8 * np.abs(roots)) or np.any(roots.real <= 0):
            raise ValueError(
                f"steps={steps}: no positive rates are best on {self.task}"
            )
        return np.sort(1 / roots.real)

    @property
    def _parts(self) -> tuple[float, float]:
        """The factors of the two integrals: of the weights, and of the noise."""
        task = self.task
        half = 0.5 * task.dim * self._variance
        return half * task.weight_scale**2, half * task.noise**2 / task.context

    @property
    def _variance(self) -> float:
        """Of each component of a point."""
        dim = self.task.dim
        variance = self.task.input_distribution.moments(dim).first / dim
        return self.task.input_scale**2 * variance

    def _spectrum(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        nodes, weights = wishart_quadrature(self.task.dim, self.task.context, steps + 1)
        return nodes * self._variance, weights


@functools.cache
def wishart_quadrature(
    dim: int, context: int, count: int
) -> tuple[Float[np.ndarray, " node"], Float[np.ndarray, " node"]]:
    r"""Nodes and weights for the mean over eigenvalues of $X^\top X / N$, $X$ normal.

    It is exact for polynomials of degree below $2\,count$. The recurrence comes from
    the moments by Chebyshev's algorithm, in fractions: it amplifies rounding.
    """
    moments = wishart_moments(dim, context, 2 * count)
    older, old = [Fraction(0)] * len(moments), moments
    diagonal, beside = [moments[1] / moments[0]], []
    for k in range(1, count):
        shift, less = diagonal[-1], beside[-1] if beside else Fraction(0)
        new = [Fraction(0)] * len(moments)
        for n in range(k, 2 * count - k):
            new[n] = old[n + 1] - shift * old[n] - less * older[n]
        beside.append(new[k] / old[k - 1])
        diagonal.append(new[k + 1] / new[k] - old[k] / old[k - 1])
        older, old = old, new
    matrix = np.diag(np.array(diagonal, float))
    offs = np.sqrt(np.array(beside, float))
    nodes, vectors = np.linalg.eigh(matrix + np.diag(offs, 1) + np.diag(offs, -1))
    return nodes, vectors[0] ** 2


def wishart_moments(dim: int, context: int, count: int) -> list[Fraction]:
    r"""$E[\operatorname{tr} H^k] / d$ for $k$ below `count`, $H = X^\top X / N$, exact.

    $X^\top X$ is like $B^\top B$ with a bidiagonal $B$ of independent chi variables
    (Dumitriu and Edelman 2002). So the moment is a sum over Dyck paths, whose steps at
    one height have an even power of one of these variables.
    """
    freedoms = [n for k in range(dim) for n in (context - k, dim - 1 - k)]
    # By the up-steps at this height and those at or above it: the sum over paths.
    above = {(0, 0): 1}
    for freedom in reversed(freedoms[: 2 * dim - 1]):
        here: dict[tuple[int, int], int] = {(0, 0): 1}
        power = 1  # The mean of the variable to the power of 2 m.
        for m in range(1, count):
            power *= freedom + 2 * (m - 1)
            for (n, length), paths in above.items():
                if m + length < count and power:
                    key = m, m + length
                    ways = comb(m + n - 1, n) * power * paths
                    here[key] = here.get(key, 0) + ways
        above = here
    totals = [0] * count
    for (_, length), paths in above.items():
        totals[length] += paths
    return [Fraction(total, context**k) for k, total in enumerate(totals)]


def _orthonormal(
    nodes: np.ndarray, weights: np.ndarray, degree: int
) -> tuple[np.ndarray, np.ndarray]:
    """Polynomials up to a degree at the nodes, `[node, degree]`, and the matrix that
    multiplies one by its variable, `[degree, degree]`."""
    raised = np.zeros((degree + 1, degree))
    basis = [np.ones(len(nodes))]
    for k in range(degree):
        new = nodes * basis[k]
        for _ in range(2):  # Twice, or rounding would spoil the basis.
            for i, old in enumerate(basis):
                share = np.sum(weights * old * new)
                raised[i, k] += share
                new = new - share * old
        raised[k + 1, k] = np.sqrt(np.sum(weights * new**2))
        basis.append(new / raised[k + 1, k])
    return raised, np.stack(basis, 1)
