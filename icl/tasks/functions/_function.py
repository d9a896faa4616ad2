"""What a class of functions is, and how predictions of its values are scored."""

import abc
import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ...checks import check_scale, positive
from ...unions import OpenUnion
from ._shift import PointMoments


@dataclasses.dataclass(frozen=True)
class SquaredError:
    """For values that are numbers."""

    def loss(
        self, prediction: Float[Array, "*point"], value: Float[Array, "*point"]
    ) -> Float[Array, "*point"]:
        """The squared error, not divided by anything."""
        return (prediction - value) ** 2

    def error(
        self,
        prediction: Float[Array, "*point"],
        value: Float[Array, "*point"],
        mean_square: Float[Array, ""],
    ) -> Float[Array, "*point"]:
        """The squared error divided by the mean square of the values."""
        return self.loss(prediction, value) / mean_square


@dataclasses.dataclass(frozen=True)
class SignedLabels:
    """For labels -1 and 1, and 0 for a point on the boundary; predictions are logits.

    The conventions are those of the public code: a label 0 has the target 1/2 in the
    loss, and no prediction of it is right, unless the logit is exactly 0, too.
    """

    def loss(self, prediction, value):
        """The cross-entropy in nats. Values that are no labels count by their sign."""
        target = (jnp.sign(value) + 1) / 2
        return jax.nn.softplus(prediction) - target * prediction

    def error(self, prediction, value, mean_square):
        """1 where the sign is wrong, else 0; `mean_square` is not used."""
        wrong = jnp.sign(prediction) != jnp.sign(value)
        return wrong.astype(prediction.dtype)


Scoring = SquaredError | SignedLabels
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


class LikeLinear(FunctionClass):
    """Functions whose values have the mean square of a linear function's."""

    scale: float

    def __post_init__(self):
        check_numbers(self)

    def mean_square(self, dim, inputs, *, active) -> Size:
        r"""$s^2 d$ times the variance of a component; an offset does not count."""
        return self.scale**2 * active * inputs.second


def check_numbers(function: FunctionClass) -> None:
    """Raises `ValueError` unless each number of a class is above 0 and finite."""
    for field in dataclasses.fields(function):
        check = {int: positive, float: check_scale}.get(field.type)
        if check is not None:
            check(field.name, getattr(function, field.name))
