"""The multi-layer perceptron of a transformer block."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from opto import identity, Tap

from ._init import linear
from ._layers import per_token


class MLP(eqx.Module):
    """For each token: linear, GELU (tanh form), linear; both linear with bias."""

    expand: eqx.nn.Linear
    contract: eqx.nn.Linear

    def __init__(
        self, d_model: int, d_mlp: int, *, init_scale: float, key: PRNGKeyArray
    ):
        """**Arguments:** `d_mlp`: hidden units; `init_scale`: factor on the weights."""
        key1, key2 = jax.random.split(key)
        self.expand = linear(d_model, d_mlp, bias=True, scale=init_scale, key=key1)
        self.contract = linear(d_mlp, d_model, bias=True, scale=init_scale, key=key2)

    def __call__(
        self, x: Float[Array, "seq d_model"], *, tap: Tap = identity
    ) -> Float[Array, "seq d_model"]:
        pre = tap("pre", per_token(self.expand, x), "seq d_mlp")
        post = tap("post", jax.nn.gelu(pre), "seq d_mlp")
        return tap("out", per_token(self.contract, post), "seq d_model")
