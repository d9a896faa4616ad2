"""Prompts that become longer and wider while a model trains."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Int

from ...checks import positive
from ...protocols import MOST_SEEN


@dataclasses.dataclass(frozen=True)
class Ramp:
    r"""A whole number that grows: $\min(e, b + c \lfloor n / m \rfloor)$.

    $n$ is the number of sequences seen. The public code counts steps; one of its
    intervals of 2000 steps with 64 prompts each is 128,000 sequences.
    """

    start: int
    """$b$, at least 1."""
    end: int
    """$e$, at least `start`."""
    increment: int
    """$c$, how much it grows at a time, at least 1."""
    interval: int
    """$m$, how many sequences pass between."""

    def __post_init__(self):
        for field in dataclasses.fields(self):
            positive(field.name, getattr(self, field.name))
        if self.end < self.start:
            wanted = f"end must be at least start={self.start}"
            raise ValueError(f"{wanted}, got {self.end}")
        if self._increments * self.interval > MOST_SEEN:
            raise ValueError(f"end must be reached in at most {MOST_SEEN} sequences")

    def at(self, seen: Int[ArrayLike, "*batch"]) -> Int[Array, "*batch"]:
        """The number after `seen` sequences."""
        if not isinstance(seen, jax.Array):  # Larger numbers do not fit into JAX's.
            seen = np.minimum(seen, MOST_SEEN)
        times = jnp.asarray(seen) // self.interval
        # With the last increment, the sum may overflow.
        grown = self.start + self.increment * times
        return jnp.where(times < self._increments, grown, self.end)

    @property
    def _increments(self) -> int:
        """How many lead to the end."""
        return -(-(self.end - self.start) // self.increment)


@dataclasses.dataclass(frozen=True)
class Curriculum:
    """How many components and points of a prompt are in use (Garg et al. 2022).

    The other components are 0. Later points are 0 and do not count in the loss.
    """

    dims: Ramp
    """The number of components."""
    points: Ramp
    """The number of points."""

    def check(self, points: int, dim: int) -> None:
        """Raises `ValueError` if one of them ends above the size of a prompt."""
        sizes = (("dims", self.dims, dim), ("points", self.points, points))
        for name, ramp, size in sizes:
            if ramp.end > size:
                wanted = f"curriculum: {name} must end at {size} or below"
                raise ValueError(f"{wanted}, got {ramp.end}")
