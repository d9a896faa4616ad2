"""Entries of vectors that the descent does not move."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._toy import Toy
from ._vectors import Vectors


class ToyClamp(eqx.Module):
    """Holds entries of a vector, from before the first step on.

    The gradient of the other entries is computed as if the clamped ones were learned.
    """

    name: str = eqx.field(static=True)
    """The vector."""
    entries: tuple[int, ...] | None = eqx.field(static=True, default=None)
    """Which entries; `None` is all."""
    value: float | Float[Array, " _"] | None = None
    """What to hold them at: a number or a whole vector; `None` is the true vector."""

    def check(self, toy: Toy) -> None:
        """Raises `ValueError` if the toy does not have these entries."""
        if self.name not in toy.true:
            raise ValueError(f"name must be in {sorted(toy.true)}, got {self.name!r}")
        size = toy.true[self.name].shape[-1]
        for entry in self.entries or ():
            if not 0 <= entry < size:
                raise ValueError(
                    f"entries of {self.name!r} must be in [0, {size}), got {entry}"
                )

    def __call__(self, learned: Vectors, true: Vectors) -> Vectors:
        """The vectors with the entries set."""
        vector = learned[self.name]
        value = true[self.name] if self.value is None else jnp.asarray(self.value)
        if self.entries is not None:
            held = np.isin(np.arange(vector.shape[0]), self.entries)
            value = jnp.where(held, value, vector)
        value = jnp.broadcast_to(value, vector.shape).astype(vector.dtype)
        return {**learned, self.name: value}
