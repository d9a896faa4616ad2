"""Larger or smaller points."""

import dataclasses

from ....checks import check_scale
from .._shift import Choices, InputShift, PointMoments, Points


class _Scaled(InputShift):
    scale: float

    def __post_init__(self):
        check_scale("scale", self.scale)
        if self.scale == 1:
            raise ValueError(f"scale={self.scale} changes nothing: leave the shift out")

    def moments(self, dim: int) -> PointMoments:
        """Those of a scaled normal component."""
        return PointMoments(self.scale**2, 3 * self.scale**4)

    def choices(self, points, dim, *, key) -> Choices:
        return {}


@dataclasses.dataclass(frozen=True)
class ScaledInputs(_Scaled):
    """All points times a number (Garg et al. 2022, appendix). For scaled values, use
    the `scale` of the function's class."""

    scale: float
    """Above 0, and not 1."""

    def queries(self, points: int, dim: int) -> None:
        """Each point: it shifts the whole prompt."""

    def apply(self, xs: Points, choices: Choices) -> tuple[Points, Points]:
        moved = self.scale * xs
        return moved, moved


@dataclasses.dataclass(frozen=True)
class ScaledQuery(_Scaled):
    """Only the query times a number (limits_of_icl)."""

    scale: float
    """Above 0, and not 1."""

    def queries(self, points: int, dim: int) -> range:
        """Every position."""
        return range(points)

    def apply(self, xs: Points, choices: Choices) -> tuple[Points, Points]:
        return xs, self.scale * xs
