"""Layers on whole sequences do what Equinox's layers do for each token."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from icl.compile import computed_once, jit
from icl.models._layers import per_token


LAYERS = {
    "linear": lambda key: eqx.nn.Linear(6, 4, key=key),
    "without bias": lambda key: eqx.nn.Linear(6, 4, use_bias=False, key=key),
    "norm": lambda _: eqx.nn.LayerNorm(6),
    "norm without bias": lambda _: eqx.nn.LayerNorm(6, use_bias=False),
    "plain norm": lambda _: eqx.nn.LayerNorm(6, use_weight=False, use_bias=False),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_values_and_gradients_are_those_of_equinox(make):
    layer = make(jax.random.key(0))
    x, weights = jax.random.normal(jax.random.key(2), (2, 3, 5, 6))
    weights = weights[..., : layer(x[0, 0]).size]
    # Else a norm's scale and offset are 1 and 0.
    move = lambda leaf: leaf + 0.1 * jax.random.normal(jax.random.key(3), leaf.shape)
    layer = jax.tree.map(move, layer)

    def gradients(of):
        loss = lambda layer, x: jnp.sum(weights * jax.vmap(lambda s: of(layer, s))(x))
        values = jax.vmap(lambda s: of(layer, s))(x)
        return values, *jit(jax.grad(loss, (0, 1)))(layer, x)

    ours = gradients(per_token)
    equinox = gradients(lambda layer, s: jax.vmap(layer)(s))
    for mine, theirs in zip(*map(jax.tree.leaves, (ours, equinox)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=2e-6)


def test_what_is_computed_once_stays_one_value_in_the_program():
    """XLA may not know the option that keeps it; then training is only slower."""
    if jax.default_backend() != "cpu":
        pytest.skip("only on a CPU")
    x = jnp.arange(12.0).reshape(4, 3)
    fn: Any = jit(lambda x: computed_once(x * x + x) @ x.T)
    assert "opt-barrier" in fn.lower(x).compile().as_text()
    np.testing.assert_allclose(fn(x), (np.square(x) + x) @ x.T, rtol=1e-6)
