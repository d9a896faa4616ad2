"""Which layers' predictions a model gives, so that training reaches them.

All layers share one read-out. A model that has it offers `read(stream)`: what it
predicts from the residual stream after any layer.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float


Streams = Sequence[Float[Array, "_ d_model"]]  # Some may have only the queries' rows.
Read = Callable[[Float[Array, "_ d_model"]], Float[Array, "*answer"]]


@dataclasses.dataclass(frozen=True)
class FinalLayer:
    """Only the prediction after the last layer counts."""

    axes: ClassVar[str] = ""

    def predict(self, read: Read, streams: Streams) -> Float[Array, "*answer"]:
        """What the model gives, from the residual streams after each layer."""
        return read(streams[-1])


@dataclasses.dataclass(frozen=True)
class EveryLayer:
    """The predictions after all layers count equally: deep supervision."""

    axes: ClassVar[str] = "layer "

    def predict(self, read: Read, streams: Streams) -> Float[Array, "layer ..."]:
        """The prediction after each layer."""
        return jnp.stack([read(stream) for stream in streams])


Supervision = FinalLayer | EveryLayer
