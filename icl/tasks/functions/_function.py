"""What a class of functions is, and the maps that several classes share."""

import abc
from typing import ClassVar

from jaxtyping import Array, Float, Int, PRNGKeyArray

from ...unions import OpenUnion
from ._scoring import Scoring, SquaredError
from ._shift import PointMoments


Parameters = dict[str, Array]
"""What makes one function of a class: arrays by name."""
Active = int | Int[Array, ""]
"""How many components or points are in use; an array during a curriculum."""
Size = float | Float[Array, ""]
"""The mean square of some values."""


class FunctionClass(OpenUnion, packages=("icl.tasks.functions.classes",)):
    """A distribution over functions of a point, as a frozen dataclass."""

    scoring: ClassVar[Scoring] = SquaredError()
    """How predictions of its values are scored."""

    @abc.abstractmethod
    def check(self, dim: int) -> None:
        """Raises `ValueError` if there are no such functions of `dim` components."""

    @abc.abstractmethod
    def draw(
        self, points: int, dim: int, *, active: Active, key: PRNGKeyArray
    ) -> Parameters:
        """The parameters of one function.

        **Arguments:**

        - `points`: How many points it will be evaluated at, for noise on each value.
        - `active`: How many components of a point are not zero: the first ones.
        """

    @abc.abstractmethod
    def values(
        self, parameters: Parameters, xs: Float[Array, "point dim"]
    ) -> Float[Array, " point"]:
        """The values of the function at some points."""

    @abc.abstractmethod
    def mean_square(self, dim: int, inputs: PointMoments, *, active: Active) -> Size:
        """The mean square of its values, averaged over functions.

        Noise and offsets do not count, unless the class says so. Errors are divided by
        this number, so that a model that always predicts 0 has an error of about 1.

        **Arguments:**

        - `inputs`: The mean powers of each component of the points, if all are in use.
        - `active`: How many components of a point are not zero, as for `draw`.
        """


def linear(
    xs: Float[Array, "point dim"], weights: Float[Array, " dim"], scale: float
) -> Float[Array, " point"]:
    r"""$s\, w \cdot x$ at each point."""
    return scale * (xs @ weights)
