"""Distributed alignment search: the subspace that carries a variable.

Geiger et al. 2024, "Finding Alignments Between Interpretable Causal Variables and
Distributed Neural Representations", arXiv 2303.02536. A pair of inputs differs in the
variable. If a subspace of an activation carries it, the model's answer on the one
input, with that subspace taken from the run on the other, is what the answer would be
if only the variable were exchanged.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from ._batched import differ
from ._checks import one_number, whole
from ._derived import put
from ._fit import minimised, taken
from ._run import run
from ._subspace import Subspace
from ._sweep import checked_table
from ._swept import Each
from .patching import check_alike


class Alignment(NamedTuple):
    """What `find_subspace` gives, for each point of the sweep.

    **Fields:**

    - `bases`: Orthonormal vectors of the learnt subspaces.
    - `accuracy`: How often the answer is the expected one, on pairs held out.
    - `random`: The same for random subspaces of that rank.
    - `untrained`: The same for subspaces learnt in an untrained model, if given.
    - `losses`: The mean loss of all points at each step.
    """

    bases: Float[Array, "*point rank size"]
    accuracy: Float[Array, "*point"]
    random: Float[Array, "*point"]
    untrained: Float[Array, "*point"] | None
    losses: Float[np.ndarray, " step"]


def find_subspace(
    model: Callable[..., Any],
    inputs: Sequence[Any],
    source: Sequence[Any],
    expected: Array,
    *,
    at: Each,
    rank: int,
    loss: Callable[[Any, Array], Array],
    correct: Callable[[Any, Array], Array],
    steps: int = 500,
    optimizer: optax.GradientTransformation | None = None,
    batch_size: int | None = None,
    held_out: float = 0.25,
    untrained: Callable[..., Any] | None = None,
    seed: int = 0,
) -> Alignment:
    """Learns, at each place of a sweep, the subspace that carries a variable.

    ```python
    at = opto.At("blocks.*.resid_post").each("layer", "pos")
    found = opto.align.find_subspace(
        model, inputs, source, expected, at=at, rank=2, loss=loss, correct=correct
    )
    ```

    All places are trained at once, in one compiled scan.

    **Arguments:**

    - `model`: As for `opto.run`.
    - `inputs`, `source`: Lists of the inputs of both runs, `[example, …]`.
    - `expected`: By example, the answer on `inputs` with the variable of `source`.
    - `at`: The places: a selection and the axes to sweep, `At(...).each(...)`. The
        subspaces are of the last axis of its sites.
    - `rank`: The number of dimensions of each subspace.
    - `loss`, `correct`: Functions of the outputs of a batch and its `expected`: one
        number to minimise, and for each example whether the answer is right.
    - `steps`, `optimizer`, `batch_size`, `seed`: As for `opto.fit`.
    - `held_out`: The share of examples that only the accuracies are taken on.
    - `untrained`: A model with the same sites, for the second control.

    **Raises:** `ValueError` as `opto.run`, for sites whose last axes differ, and for
    places of each example (`opto.PerExample`).
    """
    inputs, source = tuple(inputs), tuple(source)
    check_alike(inputs, source)
    rank, steps = whole("rank", rank, 1), whole("steps", steps, 1)
    part = at.edit
    if differ(part.where):
        why = "the examples are divided, so all must have the same places"
        raise ValueError(f"at={at!r}: {why}")
    table = checked_table(model, inputs, ())
    sites = table.match(part.site)
    if len({site.shape[-1] for site in sites}) > 1:
        raise ValueError(f"at={at!r}: the sites differ in their last axis")
    points = at.expand(table)
    parts = eqx.partition(points.value, points.mapped)
    count, size = len(points.exists), sites[0].shape[-1]
    if rank > size:
        raise ValueError(
            f"rank must be at most {size}, the length of vectors, got {rank}"
        )
    examples = len(expected)
    order = np.random.default_rng(seed).permutation(examples)
    kept = examples - max(1, round(held_out * examples))
    if kept < 1:
        raise ValueError(f"held_out={held_out} leaves none of {examples} to train on")
    if batch_size is not None and whole("batch_size", batch_size, 1) > kept:
        raise ValueError(f"batch_size={batch_size}, but {kept} examples to train on")
    key = jax.random.key(seed)
    start = jax.random.normal(key, (count, rank, size))

    def of(model: Any) -> "_Pairs":
        _, record = run(model, *source, record=part.site)
        return _Pairs(model, *parts, (inputs, dict(record), expected), loss, None)

    pairs = of(model)
    training = pairs.only(order[:kept], batch_size)
    bases, losses = minimised(training, start, optimizer, steps, seed)
    test = pairs.only(order[kept:], None)
    none = None
    if untrained is not None:
        control = of(untrained)
        learnt = control.only(order[:kept], batch_size)
        other, _ = minimised(learnt, start, optimizer, steps, seed)
        none = control.only(order[kept:], None).accuracy(other, correct)
    others = jax.random.normal(jax.random.fold_in(key, 1), start.shape)
    found = test.accuracy(bases, correct), test.accuracy(others, correct)
    q = jnp.linalg.qr(bases.mT)[0].mT
    shaped = [None if x is None else x.reshape(points.shape) for x in (*found, none)]
    return Alignment(q.reshape(*points.shape, rank, size), *shaped, losses / count)  # pyright: ignore


class _Pairs(eqx.Module):
    """Pairs of runs, with a subspace exchanged at each point of a sweep."""

    model: Any
    moving: Any
    still: Any
    data: Any
    loss: Callable[..., Array]
    size: int | None = eqx.field(static=True)

    def only(self, which: np.ndarray, size: int | None) -> "_Pairs":
        """Some of the pairs; `size` of them at a time."""
        data = taken(self.data, which)
        return _Pairs(self.model, self.moving, self.still, data, self.loss, size)

    def __call__(self, bases: Array, key: Any) -> Array:
        """The sum of the losses of all points."""
        data = self.data
        if self.size is not None:
            count = len(data[2])
            data = taken(
                data, jax.random.choice(key, count, (self.size,), replace=False)
            )
        losses = self._at_each(
            bases, data, lambda out, e: one_number(self.loss(out, e))
        )
        return losses.sum()

    def accuracy(self, bases: Array, correct: Callable[..., Array]) -> Array:
        """How often the answer is the expected one, at each point."""
        mean = lambda out, expected: jnp.mean(
            jnp.asarray(correct(out, expected), float)
        )
        return eqx.filter_jit(self._at_each)(bases, self.data, mean)

    def _at_each(self, bases: Array, data: Any, score: Callable[..., Array]) -> Array:
        inputs, record, expected = data

        def one(vectors: Array, moving: Any) -> Array:
            where = eqx.combine(moving, self.still).where
            patch = put(self.still.site, record, where, 1.0)
            basis = Subspace(vectors, ("unit",))
            none = lambda x: x is None
            patch = eqx.tree_at(lambda e: e.basis, patch, basis, is_leaf=none)
            return score(run(self.model, *inputs, edits=[patch])[0], expected)

        return jax.vmap(one)(bases, self.moving)
