"""The multi-layer perceptron of a transformer block, and its activations."""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from opto import identity, Tap

from ._init import linear
from ._layers import per_token


@dataclasses.dataclass(frozen=True)
class TanhGelu:
    """GELU in its tanh form (Hendrycks and Gimpel 2016, section 2), as in GPT-2."""

    def __call__(self, x: Array) -> Array:
        return jax.nn.gelu(x, approximate=True)


@dataclasses.dataclass(frozen=True)
class ExactGelu:
    """GELU with the error function."""

    def __call__(self, x: Array) -> Array:
        return jax.nn.gelu(x, approximate=False)


@dataclasses.dataclass(frozen=True)
class Relu:
    """The positive part."""

    def __call__(self, x: Array) -> Array:
        return jax.nn.relu(x)


Activation = TanhGelu | ExactGelu | Relu


class MLP(eqx.Module):
    """For each token: linear, activation, linear; both linear with bias."""

    expand: eqx.nn.Linear
    contract: eqx.nn.Linear
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(
        self,
        d_model: int,
        d_mlp: int,
        *,
        init_scale: float,
        key: PRNGKeyArray,
        activation: Callable[[Array], Array] = jax.nn.gelu,
    ):
        """**Arguments:**

        - `d_mlp`: Hidden units.
        - `init_scale`: The factor on the weights.
        - `activation`: The default is GELU in its tanh form.
        """
        key1, key2 = jax.random.split(key)
        self.expand = linear(d_model, d_mlp, bias=True, scale=init_scale, key=key1)
        self.activation = activation
        self.contract = linear(d_mlp, d_model, bias=True, scale=init_scale, key=key2)

    def __call__(
        self, x: Float[Array, "seq d_model"], *, tap: Tap = identity
    ) -> Float[Array, "seq d_model"]:
        pre = tap("pre", per_token(self.expand, x), "seq d_mlp")
        post = tap("post", self.activation(pre), "seq d_mlp")
        return tap("out", per_token(self.contract, post), "seq d_model")
