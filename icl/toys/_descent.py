"""Gradient descent on a toy, as a scan."""

import dataclasses
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..checks import check_not_negative, check_scale, positive
from ._loss import ToyMeasure, Vectors
from ._toy import Toy, ToyClamp, Trace


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
    return Trace(losses, seen, last, _first_below(losses, how))


def _clamped(learned: Vectors, true: Vectors, clamps: Sequence[ToyClamp]) -> Vectors:
    for clamp in clamps:
        learned = clamp(learned, true)
    return learned


def _below(losses: Float[Array, "*step"], how: ToyDescent) -> Array:
    # Rounding can make a loss of inner products negative. Without a tolerance, this is
    # no reason to stop.
    return losses < (how.tolerance or -jnp.inf)


def _first_below(losses: Float[Array, " step"], how: ToyDescent) -> Array:
    below = _below(losses, how)
    return jnp.where(jnp.any(below), jnp.argmax(below), how.steps)
