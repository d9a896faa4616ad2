"""What losses and measures are functions of."""

from collections.abc import Callable, Mapping

from jaxtyping import Array, Float


Vectors = Mapping[str, Float[Array, " _"]]
"""Vectors by name, of any sizes."""

ToyMeasure = Callable[[Vectors, Vectors], Array]
"""A number, or an array, of the learned and the true vectors."""
