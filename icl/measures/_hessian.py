"""Curvature of the loss: the Hessian's largest eigenvalues, by Lanczos' method.

The Hessian itself is never computed. Lanczos' method needs only its products with
vectors, and each costs about two gradients (Pearlmutter 1994).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

import opto

from ..batches import size_of
from ..checks import check_scale, positive
from ..training.freezing import trained_part
from ._measure import OfModel
from ._text import register


# How many sequences of a batch are differentiated at once.
_PIECE = 1024


@register
def hessian_eigenvalues(count: int = 10, iterations: int | None = None) -> OfModel:
    """The largest eigenvalues of the loss's Hessian in the weights: `[eigenvalue]`.

    The loss is the mean over the batch under the edits. The largest eigenvalue comes
    first, and negative ones count as small. Entries beyond the number of weights are
    NaN.

    **Arguments:**

    - `count`: The number of eigenvalues.
    - `iterations`: The number of products with the Hessian; more of them make the last
        eigenvalues more exact. By default `4 * count + 20`.
    """
    positive("count", count)
    steps = 4 * count + 20 if iterations is None else iterations
    if steps < count:
        raise ValueError(f"iterations must be at least count={count}, got {steps}")

    def fn(model: Any, task: Any, batch: PyTree, edits: tuple) -> Array:
        product, size = _hessian(model, task, batch, edits)
        return largest_eigenvalues(product, size, count, steps, key=jax.random.key(0))

    return OfModel(fn, "eigenvalue", "eigenvalue of the Hessian")


@register
def effective_dimension(
    z: float = 1.0, count: int = 100, iterations: int | None = None
) -> OfModel:
    r"""The number of directions in weight space in which the loss is curved.

    It is $\sum_i \lambda_i / (\lambda_i + z)$ over the `count` largest eigenvalues of
    the Hessian of the mean loss; see `dimension`.

    **Arguments:** `z` as for `dimension`; `count`, `iterations` as for
    `hessian_eigenvalues`.
    """
    check_scale("z", z)
    eigenvalues = hessian_eigenvalues(count, iterations).fn

    def fn(model: Any, task: Any, batch: PyTree, edits: tuple) -> Array:
        return dimension(eigenvalues(model, task, batch, edits), z)

    return OfModel(fn, "", "effective dimension")


def dimension(
    eigenvalues: Float[ArrayLike, "*batch eigenvalue"], z: float = 1.0
) -> Float[Array, "*batch"]:
    r"""The effective dimension $\sum_i \lambda_i / (\lambda_i + z)$ of a curvature.

    See MacKay (1992), "Bayesian interpolation", where $z$ is the prior's precision, and
    Maddox et al. (2020), "Rethinking parameter counting in deep models". If only the
    largest eigenvalues are given, it is a lower bound. Negative eigenvalues count as
    zero, and so does NaN after the first one, which stands for no eigenvalue; if the
    first one is NaN, the dimension is.

    **Arguments:**

    - `eigenvalues`: For example those of `hessian_eigenvalues`.
    - `z`: A positive curvature. Directions with much more curvature count as one,
        directions with much less as zero.
    """
    check_scale("z", z)
    values = jnp.asarray(eigenvalues)
    positive = jnp.maximum(jnp.nan_to_num(values, nan=0.0), 0)
    unknown = jnp.isnan(values[..., :1]).any(-1)
    return jnp.where(unknown, jnp.nan, jnp.sum(positive / (positive + z), -1))


def largest_eigenvalues(
    product: Callable[[Float[Array, " n"]], Float[Array, " n"]],
    size: int,
    count: int,
    iterations: int,
    *,
    key: PRNGKeyArray,
) -> Float[Array, " count"]:
    """The largest eigenvalues of a symmetric matrix, largest first, by Lanczos.

    Each vector is made orthogonal to all vectors before it, twice. When the Krylov
    space of the start vector is exhausted, the method continues from a random vector.
    So an eigenvalue of multiplicity m is found m times.

    **Arguments:**

    - `product`: Multiplies the matrix by a vector.
    - `size`: The number of rows of the matrix.
    - `count`: The number of eigenvalues; NaN beyond `size`.
    - `iterations`: The number of products, at least `count`; `size` products give all
        eigenvalues.
    """
    steps = min(iterations, size)

    def step(i, carry):
        basis, diagonal, beside = carry
        image = product(basis[i])
        diagonal = diagonal.at[i].set(basis[i] @ image)
        rest = _orthogonal(image, basis)
        length = jnp.linalg.norm(rest)
        scale = jnp.max(jnp.abs(diagonal)) + jnp.max(beside)
        stuck = length <= 1e-6 * scale
        other = jax.random.normal(jax.random.fold_in(key, i + 1), (size,))
        other = _unit(_orthogonal(other, basis))
        after = jnp.where(stuck, other, rest / jnp.where(stuck, 1, length))
        # The last vector is out of range and is dropped.
        basis = basis.at[i + 1].set(after, mode="drop")
        return basis, diagonal, beside.at[i].set(jnp.where(stuck, 0, length))

    basis = jnp.zeros((steps, size)).at[0].set(_unit(jax.random.normal(key, (size,))))
    zeros = jnp.zeros(steps)
    _, diagonal, beside = jax.lax.fori_loop(0, steps, step, (basis, zeros, zeros))
    small = jnp.diag(diagonal) + jnp.diag(beside[:-1], 1) + jnp.diag(beside[:-1], -1)
    found = jnp.linalg.eigvalsh(small)[::-1][:count]
    return jnp.pad(found, (0, count - len(found)), constant_values=jnp.nan)


def _hessian(
    model: Any, task: Any, batch: PyTree, edits: tuple[opto.toolkit.AbstractEdit, ...]
) -> tuple[Callable[[Float[Array, " n"]], Float[Array, " n"]], int]:
    """The Hessian's product with a vector, and the number of weights."""
    losses, flat = each_loss(model, task, edits)
    total = lambda flat, examples: jnp.sum(losses(flat, examples))

    def product(vector: Float[Array, " n"]) -> Float[Array, " n"]:
        def of(examples: PyTree) -> Float[Array, " n"]:
            gradient = jax.grad(lambda flat: total(flat, examples))
            return jax.jvp(gradient, (flat,), (vector,))[1]

        return summed(of, batch) / size_of(batch)

    return product, flat.size


def each_loss(
    model: Any, task: Any, edits: tuple[opto.toolkit.AbstractEdit, ...]
) -> tuple[Callable[[Array, PyTree], Float[Array, " sequence"]], Float[Array, " n"]]:
    """The losses of examples, as a function of flat weights; and these weights."""
    weights, rest = trained_part(model)
    flat, unflatten = ravel_pytree(weights)
    forward = opto.toolkit.lift(task.forward)

    def losses(flat: Float[Array, " n"], examples: PyTree) -> Float[Array, " sequence"]:
        whole = eqx.combine(unflatten(flat), rest)

        def one(example: PyTree) -> Float[Array, ""]:
            outputs = forward(whole, example, edits=edits)
            return task.metrics(outputs, example)["loss"]

        return jax.vmap(one)(examples)

    return losses, flat


def summed(of: Callable[[PyTree], Array], batch: PyTree) -> Array:
    """The sum over pieces of a batch, one after another to bound the memory."""
    size = size_of(batch)
    whole = size // _PIECE
    rest = jax.tree.map(lambda x: x[whole * _PIECE :], batch)
    if not whole:
        return of(rest)
    pieces = jax.tree.map(
        lambda x: x[: whole * _PIECE].reshape(whole, _PIECE, *x.shape[1:]), batch
    )
    total = jax.lax.map(of, pieces).sum(0)
    return total + of(rest) if size % _PIECE else total


def _orthogonal(
    vector: Float[Array, " n"], basis: Float[Array, "step n"]
) -> Float[Array, " n"]:
    for _ in range(2):
        vector = vector - (basis @ vector) @ basis
    return vector


def _unit(vector: Float[Array, " n"]) -> Float[Array, " n"]:
    return vector / jnp.linalg.norm(vector)
