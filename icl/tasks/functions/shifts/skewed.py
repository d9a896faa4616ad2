"""Points that vary much more in some directions than in others."""

import dataclasses

import jax.numpy as jnp

from ....checks import check_scale
from .._shift import Choices, InputShift, Points
from ._rotated import random_rotation, stretched


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

    def choices(self, points, dim, *, key) -> Choices:
        return {"rotation": random_rotation(dim, key=key)}

    def apply(self, xs: Points, choices: Choices) -> tuple[Points, Points]:
        lengths = jnp.arange(1.0, xs.shape[-1] + 1) ** -self.exponent
        moved = stretched(xs, choices["rotation"], lengths)
        return moved, moved
