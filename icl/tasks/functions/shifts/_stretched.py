"""Normal points whose covariance has given eigenvalues, in random directions."""

import abc

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

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
