"""Points that vary much more in some directions than in others."""

import dataclasses

import numpy as np
from jaxtyping import Float

from ....checks import check_scale
from .._shift import Choices, InputShift, PointMoments, Points
from ._rotated import random_rotation, stretched, stretched_moments


@dataclasses.dataclass(frozen=True)
class SkewedInputs(InputShift):
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
        return np.arange(1.0, dim + 1) ** -self.exponent
