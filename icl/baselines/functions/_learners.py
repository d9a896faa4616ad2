"""Good learners of functions in context, in JAX."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from opto import identity, Tap

from ...checks import (
    check_not_negative,
    check_prompt,
    check_scale,
    check_seed,
    positive,
)
from ..least_squares import Ridge


class FunctionLearner(eqx.Module):
    """The base of all: it is called like a model, with a prompt's points and values."""

    def __call__(
        self,
        xs: Float[Array, "point dim"],
        ys: Float[Array, " point"],
        *,
        tap: Tap = identity,
    ) -> Float[Array, " point"]:
        """The prediction at each point, 0 at the first one.

        A baseline has no sites: `tap` is not used.
        """
        check_prompt(xs, ys)
        return self.predictions(jnp.asarray(xs), jnp.asarray(ys))

    @abc.abstractmethod
    def predictions(
        self, xs: Float[Array, "point dim"], ys: Float[Array, " point"]
    ) -> Float[Array, " point"]:
        """The prediction at each point from the pairs before it."""


class ContextLearner(FunctionLearner):
    """Learns from the pairs before a point and predicts the point's value.

    Without any pairs, it predicts 0.
    """

    @abc.abstractmethod
    def answer(
        self,
        xs: Float[Array, "point dim"],
        ys: Float[Array, " point"],
        known: Bool[Array, " point"],
        query: Float[Array, " dim"],
    ) -> Float[Array, ""]:
        """The prediction at the query from the known pairs; at least one is known.

        **Arguments:**

        - `xs`, `ys`: The pairs; those that are not known are 0.
        """

    def predictions(self, xs, ys):
        def one(at: Int[Array, ""]) -> Float[Array, ""]:
            known = jnp.arange(len(xs)) < at
            # The first point of all stands in for a context that is empty.
            some = known.at[0].set(True)
            pairs = jnp.where(some[:, None], xs, 0), jnp.where(some, ys, 0)
            return jnp.where(at > 0, self.answer(*pairs, some, xs[at]), 0.0)

        return jax.vmap(one)(jnp.arange(len(xs)))


class Averaging(ContextLearner):
    r"""$w = \frac{1}{k} \sum_i y_i x_i$ (Garg et al. 2022, section 3).

    On linear functions its error is $(d + 1) / k$ of the mean square after $k$ pairs.
    """

    def answer(self, xs, ys, known, query):
        return jnp.vdot(ys @ xs, query) / jnp.sum(known)


class LeastSquares(ContextLearner):
    r"""The linear function that minimises $|X w - y|^2 + \lambda |w|^2$.

    With $\lambda = 0$, the smallest of those that fit best: on linear functions without
    noise its error is $(1 - k/d)_+$ of the mean square after $k$ pairs. With $\lambda =
    \sigma^2$, it is the Bayes predictor for noise of variance $\sigma^2$.

    **Fields:** `penalty`: $\lambda$, at least 0.
    """

    penalty: float = eqx.field(static=True, default=0.0)

    def __check_init__(self):
        check_not_negative("penalty", self.penalty)

    def answer(self, xs, ys, known, query):
        # Pairs that are 0 do not change the solution.
        return Ridge(self.penalty)(xs, ys, query)[1]


class NearestNeighbours(ContextLearner):
    """The mean value of the nearest points, or of all if there are fewer.

    **Fields:** `count`: How many points; Garg et al. (2022) have 3.
    """

    count: int = eqx.field(static=True, default=3)

    def __check_init__(self):
        positive("count", self.count)

    def answer(self, xs, ys, known, query):
        distance = jnp.where(known, jnp.sum((xs - query) ** 2, 1), jnp.inf)
        near, places = jax.lax.top_k(-distance, min(self.count, len(xs)))
        chosen = jnp.isfinite(near)
        return jnp.sum(jnp.where(chosen, ys[places], 0)) / jnp.sum(chosen)


class TwoLayerNetwork(ContextLearner):
    """A network with one hidden layer of ReLU units, trained on the context by Adam.

    The defaults are those of Garg et al. (2022, appendix), whose context fits into one
    batch. Every training starts from the same random weights.

    **Fields:** `hidden`: The number of units. `rate`, `steps`: The learning rate and
    the number of steps. `seed`: Of the initial weights.
    """

    hidden: int = eqx.field(static=True, default=100)
    rate: float = eqx.field(static=True, default=5e-3)
    steps: int = eqx.field(static=True, default=100)
    seed: int = eqx.field(static=True, default=0)

    def __check_init__(self):
        positive("hidden", self.hidden)
        positive("steps", self.steps)
        check_scale("rate", self.rate)
        check_seed("seed", self.seed)

    def answer(self, xs, ys, known, query):
        first, second = jax.random.split(jax.random.key(self.seed))
        start: Any = (
            eqx.nn.Linear(len(query), self.hidden, key=first),
            eqx.nn.Linear(self.hidden, "scalar", key=second),
        )
        optimizer = optax.adam(self.rate)

        @jax.grad
        def slope(layers: Any) -> Float[Array, ""]:
            errors = jax.vmap(lambda x: _value(layers, x))(xs) - ys
            return jnp.sum(jnp.where(known, errors, 0) ** 2) / jnp.sum(known)

        def step(carry: Any, _: None) -> tuple[Any, None]:
            layers, state = carry
            updates, state = optimizer.update(slope(layers), state)
            return (optax.apply_updates(layers, updates), state), None

        carry = start, optimizer.init(start)
        (layers, _), _ = jax.lax.scan(step, carry, length=self.steps)
        return _value(layers, query)


def _value(layers: Any, x: Float[Array, " dim"]) -> Float[Array, ""]:
    hidden, out = layers
    return out(jax.nn.relu(hidden(x)))
