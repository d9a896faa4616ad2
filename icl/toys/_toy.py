"""A toy, and the trace of its descent."""

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from ._loss import AbstractLoss
from ._vectors import Vectors


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
