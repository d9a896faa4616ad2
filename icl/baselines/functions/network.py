"""A network that is trained on the context."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from ...checks import check_scale, check_seed, positive
from ._learner import ContextLearner


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
