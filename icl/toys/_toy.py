"""A toy, the trace of its descent, and entries that are not learned."""

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from ._loss import AbstractLoss, Vectors


def _arrays(vectors: Mapping[str, ArrayLike]) -> dict[str, Array]:
    return {name: jnp.asarray(vector) for name, vector in vectors.items()}


class Toy(eqx.Module):
    """Vectors to learn, where to start, and the loss."""

    loss: AbstractLoss
    """A function of the learned and the true vectors."""
    start: dict[str, Float[Array, " _"]] = eqx.field(converter=_arrays)
    """The vectors before the first step, by name."""
    true: dict[str, Float[Array, " _"]] = eqx.field(converter=_arrays)
    """The vectors to learn, by name."""

    def __check_init__(self):
        if self.start.keys() != self.true.keys():
            raise ValueError(
                f"start and true must have the same vectors, got "
                f"{sorted(self.start)} and {sorted(self.true)}"
            )
        if missing := sorted(self.loss.reads - self.true.keys()):
            raise ValueError(f"the loss needs {missing}, but the toy lacks them")
        for name, true in self.true.items():
            if self.start[name].shape != true.shape:
                raise ValueError(
                    f"start[{name!r}] must have the shape {true.shape} of the true "
                    f"vector, got {self.start[name].shape}"
                )


class Trace(eqx.Module):
    """The history of a descent. For many seeds, all arrays have a leading axis.

    Step $n$ is after $n$ updates. After the stop, everything is NaN.
    """

    losses: Float[Array | np.ndarray, " step"]
    measures: dict[str, Float[Array | np.ndarray, "step ..."]]
    """Each measure at each step, by name."""
    vectors: Vectors
    """The last vectors."""
    stop: Int[Array | np.ndarray, ""]
    """The first step with a loss below the tolerance; the number of steps if none."""


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
