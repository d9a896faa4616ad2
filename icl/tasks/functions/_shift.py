"""What a shift of the inputs is, and prompts before a query is chosen."""

import abc
from typing import NamedTuple

from jaxtyping import Array, Float, PRNGKeyArray

from ...unions import OpenUnion


Choices = dict[str, Array]
"""The random choices of a shift for one prompt, by name."""
Points = Float[Array, "point dim"]


class PointMoments(NamedTuple):
    """The mean powers of each component of a query, over prompts.

    **Fields:**

    - `second`: The mean square.
    - `fourth`: The mean of the fourth power.
    """

    second: float
    fourth: float


NORMAL = PointMoments(1.0, 3.0)
"""Of a standard normal component."""


class InputShift(OpenUnion, packages=("icl.tasks.functions.shifts",)):
    """Moves points away from the standard normal distribution, for evaluation sets.

    A shift of the prompt moves all points alike. A shift of the query gives each point
    a second value: the context has the first ones, and the point whose value is to be
    predicted has the second one.
    """

    def check(self, points: int, dim: int) -> None:
        """Raises `ValueError` where it cannot be, or where it would change nothing.

        The task itself checks that a query has a point before it.
        """

    @abc.abstractmethod
    def queries(self, points: int, dim: int) -> range | None:
        """The positions at which the shifted point may be the query.

        `None` for a shift of the prompt: then each point is the query of those before.
        """

    @abc.abstractmethod
    def moments(self, dim: int) -> PointMoments:
        """The mean powers of a query's component; errors are normalised with them."""

    @abc.abstractmethod
    def choices(self, points: int, dim: int, *, key: PRNGKeyArray) -> Choices:
        """Draws its random choices."""

    @abc.abstractmethod
    def apply(self, xs: Points, choices: Choices) -> tuple[Points, Points]:
        """The points of the context, and each point as it is as a query.

        **Arguments:**

        - `xs`: Standard normal points.
        """
