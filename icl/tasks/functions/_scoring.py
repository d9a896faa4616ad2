"""How predictions of values are scored, point by point."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


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

    def loss(
        self, prediction: Float[Array, "*point"], value: Float[Array, "*point"]
    ) -> Float[Array, "*point"]:
        """The cross-entropy in nats. Values that are no labels count by their sign."""
        target = (jnp.sign(value) + 1) / 2
        return jax.nn.softplus(prediction) - target * prediction

    def error(
        self,
        prediction: Float[Array, "*point"],
        value: Float[Array, "*point"],
        mean_square: Float[Array, ""],
    ) -> Float[Array, "*point"]:
        """1 where the sign is wrong, else 0; `mean_square` is not used."""
        wrong = jnp.sign(prediction) != jnp.sign(value)
        return wrong.astype(prediction.dtype)


Scoring = SquaredError | SignedLabels
