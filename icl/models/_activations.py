"""Activation functions as values that a config can hold."""

import dataclasses

import jax
from jaxtyping import Array


@dataclasses.dataclass(frozen=True)
class TanhGelu:
    """GELU in its tanh form (Hendrycks and Gimpel 2016, section 2), as in GPT-2."""

    def __call__(self, x: Array) -> Array:
        return jax.nn.gelu(x, approximate=True)


@dataclasses.dataclass(frozen=True)
class ExactGelu:
    """GELU with the error function."""

    def __call__(self, x: Array) -> Array:
        return jax.nn.gelu(x, approximate=False)


@dataclasses.dataclass(frozen=True)
class Relu:
    """The positive part."""

    def __call__(self, x: Array) -> Array:
        return jax.nn.relu(x)


Activation = TanhGelu | ExactGelu | Relu
