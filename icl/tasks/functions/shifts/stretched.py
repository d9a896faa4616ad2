"""Normal points whose covariance has given eigenvalues, in random directions."""

import abc
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ....checks import check_scale, positive
from .._shift import Choices, InputShift, PointMoments, Points


class StretchedInputs(InputShift):
    r"""Points $x\, U \operatorname{diag}(\lambda) U^\top \sqrt{d / \sum \lambda^2}$.

    Each prompt has an orthogonal $U$ of its own, uniform among all. The mean square of
    a point stays $d$.
    """

    @abc.abstractmethod
    def lengths(self, dim: int) -> Float[np.ndarray, " dim"]:
        r"""$\lambda$, up to a factor: the standard deviations in the directions."""

    def queries(self, points: int, dim: int) -> None:
        """Each point: it shifts the whole prompt."""

    def moments(self, dim: int) -> PointMoments:
        r"""The moments of a point's component, over rotations.

        Given $U$, a component is normal; its variance is $\sum_j \lambda_j^2 U_{ij}^2$.
        The squares of a unit vector's entries have the mean products $1 / (d (d + 2))$,
        and 3 times that for a square with itself. So with $\sum \lambda^2 = d$, the
        fourth moment is $3 (d^2 + 2 \sum \lambda^4) / (d (d + 2))$.
        """
        fourth = 3 * (dim**2 + 2 * np.sum(self._scaled(dim) ** 4)) / (dim * (dim + 2))
        return PointMoments(1.0, float(fourth))

    def choices(self, points, dim, *, key) -> Choices:
        rotation = jnp.linalg.svd(jax.random.normal(key, (dim, dim)))[0]
        return {"rotation": rotation}

    def apply(self, xs: Points, choices: Choices) -> tuple[Points, Points]:
        rotation = choices["rotation"]
        scaled = self._scaled(xs.shape[-1]).astype(xs.dtype)
        moved = xs @ (rotation * scaled) @ rotation.T
        return moved, moved

    def _scaled(self, dim: int) -> Float[np.ndarray, " dim"]:
        """The lengths with a mean square of 1."""
        lengths = self.lengths(dim)
        return lengths * np.sqrt(dim / np.sum(lengths**2))


@dataclasses.dataclass(frozen=True)
class SkewedInputs(StretchedInputs):
    r"""Standard deviations $\propto j^{-a}$ in random orthogonal directions.

    Each prompt has directions of its own. The mean square of a point stays $d$. Garg et
    al. (2022, section 4.2) have $a = 1$: their covariance has the eigenvalues
    $\propto j^{-2}$.
    """

    exponent: float = 1.0
    """$a$, above 0."""

    def __post_init__(self):
        check_scale("exponent", self.exponent)

    def check(self, points: int, dim: int) -> None:
        if dim < 2:
            raise ValueError(f"SkewedInputs needs dim of at least 2, got {dim}")

    def lengths(self, dim: int) -> Float[np.ndarray, " dim"]:
        return np.arange(1.0, dim + 1) ** -self.exponent


@dataclasses.dataclass(frozen=True)
class SubspaceInputs(StretchedInputs):
    """Normal points in a random subspace, a new one in each prompt.

    The mean square of a point stays `dim` (Garg et al. 2022, section 4.2, whose
    subspace has half of the dimensions).
    """

    removed: int
    """How many dimensions the subspace lacks: the `num_dim` of limits_of_icl. The
    points keep `dim - removed` dimensions, at least 1."""

    def __post_init__(self):
        positive("removed", self.removed)

    def check(self, points: int, dim: int) -> None:
        if self.removed >= dim:
            raise ValueError(f"removed must be below dim={dim}, got {self.removed}")

    def lengths(self, dim: int) -> Float[np.ndarray, " dim"]:
        return (np.arange(dim) < dim - self.removed).astype(float)
