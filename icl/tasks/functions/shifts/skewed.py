"""Points that vary much more in some directions than in others."""

import dataclasses

import numpy as np
from jaxtyping import Float

from ....checks import check_scale
from ._stretched import StretchedInputs


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
