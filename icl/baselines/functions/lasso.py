"""Linear regression with an absolute penalty."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ...checks import check_scale
from ._learner import ContextLearner


# A sweep updates each weight once. Enough for penalties down to 1e-3 in float32.
_MOST_SWEEPS = 2000
_TOLERANCE = 1e-6


class Lasso(ContextLearner):
    r"""The weights that minimise $\frac{1}{2k} |X w - y|^2 + \alpha |w|_1$.

    There is no intercept. Coordinate descent, as in scikit-learn, until no weight moves
    by more than 1e-6 (Tibshirani 1996).

    **Fields:** `penalty`: $\alpha$, above 0. Garg et al. (2022) find .01 best.
    """

    penalty: float = eqx.field(static=True, default=0.01)

    def __check_init__(self):
        check_scale("penalty", self.penalty)

    def answer(self, xs, ys, known, query):
        count = jnp.sum(known)
        products, target = xs.T @ xs / count, ys @ xs / count
        diagonal = jnp.diag(products)

        def update(j: Array, weights: Array) -> Array:
            pull = target[j] - products[j] @ weights + diagonal[j] * weights[j]
            size = jnp.maximum(jnp.abs(pull) - self.penalty, 0)
            # A component that is always 0 has no weight.
            there = diagonal[j] > 0
            moved = jnp.sign(pull) * size / jnp.where(there, diagonal[j], 1)
            return weights.at[j].set(jnp.where(there, moved, 0))

        def sweep(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            weights, _, number = state
            moved = jax.lax.fori_loop(0, len(query), update, weights)
            return moved, jnp.max(jnp.abs(moved - weights)), number + 1

        def unfinished(state: tuple[Array, Array, Array]) -> Array:
            return (state[1] > _TOLERANCE) & (state[2] < _MOST_SWEEPS)

        start = jnp.zeros_like(query), jnp.asarray(jnp.inf, query.dtype), jnp.asarray(0)
        weights, _, _ = jax.lax.while_loop(unfinished, sweep, start)
        return weights @ query
