"""A toy, and gradient descent on it as a scan, with entries that are not learned."""

import dataclasses
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from ..checks import check_not_negative, check_scale, positive
from ._loss import AbstractLoss, ToyMeasure, Vectors


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


@dataclasses.dataclass(frozen=True)
class ToyDescent:
    """Plain full-batch descent, until the loss is below a tolerance."""

    steps: int = 1000
    """The largest number of steps."""
    learning_rate: float = 1.0
    """The factor on the gradients."""
    tolerance: float = 0.0
    """Stop when the loss is below this; 0 never stops."""

    def __post_init__(self):
        positive("steps", self.steps)
        check_scale("learning_rate", self.learning_rate)
        check_not_negative("tolerance", self.tolerance)


@eqx.filter_jit
def descend(
    toy: Toy,
    how: ToyDescent = ToyDescent(),  # noqa: B008
    *,
    clamps: Sequence[ToyClamp] = (),
    measures: Mapping[str, ToyMeasure] | None = None,
) -> Trace:
    r"""Descends the loss of a toy: $p \leftarrow p - \eta\,\nabla_p L(p, t)$.

    Written for one toy; `eqx.filter_vmap` maps it over toys of many seeds. A single toy
    stops computing at the tolerance; several together stop when the last one does. The
    measures do not change the descent, not even its rounding.

    **Arguments:**

    - `toy`: The loss, the start vectors and the true vectors.
    - `how`: The steps, the learning rate and when to stop.
    - `clamps`: What is not learned. If two clamps hold one entry, the last one counts.
    - `measures`: Functions by name. Each takes the learned and the true vectors and
        returns a float or an array of floats.

    **Returns:**

    The loss and the measures at each step, and the last vectors.

    **Raises:** `ValueError` if a clamp names entries that the toy does not have.
    """
    for clamp in clamps:
        clamp.check(toy)
    measures = measures or {}

    def watch(vectors: Vectors) -> dict[str, Array]:
        # Behind a barrier: otherwise the compiler would merge them with the loss, which
        # would then round differently.
        vectors = jax.lax.optimization_barrier(vectors)
        return {name: fn(vectors, toy.true) for name, fn in measures.items()}

    def move(vectors: Vectors):
        loss, gradient = jax.value_and_grad(toy.loss)(vectors, toy.true)
        below = _below(loss, how)
        moved = jax.tree.map(lambda p, g: p - how.learning_rate * g, vectors, gradient)
        moved = _clamped(moved, toy.true, clamps)
        kept = jax.tree.map(lambda p, new: jnp.where(below, p, new), vectors, moved)
        return (kept, below), (loss, watch(vectors))

    def stay(vectors: Vectors):
        _, seen = jax.eval_shape(move, vectors)
        nothing = jax.tree.map(lambda x: jnp.full(x.shape, jnp.nan, x.dtype), seen)
        return (vectors, jnp.asarray(True)), nothing

    def step(carry: tuple[Vectors, Bool[Array, ""]], _):
        vectors, stopped = carry
        return jax.lax.cond(stopped, stay, move, vectors)

    first = _clamped(toy.start, toy.true, clamps), jnp.asarray(False)
    (last, _), (losses, seen) = jax.lax.scan(step, first, None, length=how.steps)
    below = _below(losses, how)
    stop = jnp.where(jnp.any(below), jnp.argmax(below), how.steps)
    return Trace(losses, seen, last, stop)


def _clamped(learned: Vectors, true: Vectors, clamps: Sequence[ToyClamp]) -> Vectors:
    for clamp in clamps:
        learned = clamp(learned, true)
    return learned


def _below(losses: Float[Array, "*step"], how: ToyDescent) -> Array:
    # Rounding can make a loss of inner products negative. Without a tolerance, this is
    # no reason to stop.
    return losses < (how.tolerance or -jnp.inf)
