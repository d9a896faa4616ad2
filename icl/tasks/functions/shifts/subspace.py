"""Points that lie in a random subspace."""

import dataclasses

import numpy as np
from jaxtyping import Float

from ....checks import positive
from .._shift import Choices, InputShift, PointMoments, Points
from ._rotated import random_rotation, stretched, stretched_moments


@dataclasses.dataclass(frozen=True)
class SubspaceInputs(InputShift):
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

    def queries(self, points: int, dim: int) -> None:
        """Each point: it shifts the whole prompt."""

    def moments(self, dim: int) -> PointMoments:
        """The mean square is 1; in random directions, tails are heavier than normal."""
        return stretched_moments(self._lengths(dim))

    def choices(self, points, dim, *, key) -> Choices:
        return {"rotation": random_rotation(dim, key=key)}

    def apply(self, xs: Points, choices: Choices) -> tuple[Points, Points]:
        moved = stretched(xs, choices["rotation"], self._lengths(xs.shape[-1]))
        return moved, moved

    def _lengths(self, dim: int) -> Float[np.ndarray, " dim"]:
        return (np.arange(dim) < dim - self.removed).astype(float)
