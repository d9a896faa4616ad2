"""Points that lie in a random subspace."""

import dataclasses

import numpy as np
from jaxtyping import Float

from ....checks import positive
from ._stretched import StretchedInputs


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
