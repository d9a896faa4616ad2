"""The arguments of losses and measures."""

from collections.abc import Callable, Mapping

from jaxtyping import Array, Float


Vectors = Mapping[str, Float[Array, " _"]]
"""Vectors by name, of any size."""

ToyMeasure = Callable[[Vectors, Vectors], Array]
"""A function of the learned and the true vectors; it gives a number or an array."""
