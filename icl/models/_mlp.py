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


@dataclasses.dataclass(frozen=True)
class Silu:
    """The sigmoid-weighted input (Elfwing et al. 2017, arXiv 1702.03118)."""

    def __call__(self, x: Array) -> Array:
        return jax.nn.silu(x)


Activation = TanhGelu | ExactGelu | Relu | Silu


class MLP(eqx.Module):
    """For each token: linear, activation, linear."""

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
        bias: bool = True,
    ):
        """**Arguments:**

        - `d_mlp`: Hidden units.
        - `init_scale`: The factor on the weights.
        - `activation`: The default is GELU in its tanh form.
        - `bias`: Whether both layers have a bias.
        """
        key1, key2 = jax.random.split(key)
        self.expand = linear(d_model, d_mlp, bias=bias, scale=init_scale, key=key1)
        self.activation = activation
        self.contract = linear(d_mlp, d_model, bias=bias, scale=init_scale, key=key2)

    def __call__(
        self, x: Float[Array, "seq d_model"], *, tap: Tap = identity
    ) -> Float[Array, "seq d_model"]:
        pre = tap("pre", per_token(self.expand, x), "seq d_mlp")
        post = tap("post", self.activation(pre), "seq d_mlp")
        return tap("out", per_token(self.contract, post), "seq d_model")


class GatedMLP(eqx.Module):
    """For each token: a linear layer, times another's activation; then a linear layer.

    Shazeer 2020, "GLU Variants Improve Transformer", arXiv 2002.05202.
    """

    gate: eqx.nn.Linear
    expand: eqx.nn.Linear
    contract: eqx.nn.Linear
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(
        self,
        d_model: int,
        d_mlp: int,
        *,
        key: PRNGKeyArray,
        activation: Callable[[Array], Array],
        bias: bool,
    ):
        """**Arguments:** as for `MLP`."""
        keys = jax.random.split(key, 3)
        self.gate = linear(d_model, d_mlp, bias=bias, scale=1.0, key=keys[0])
        self.expand = linear(d_model, d_mlp, bias=bias, scale=1.0, key=keys[1])
        self.contract = linear(d_mlp, d_model, bias=bias, scale=1.0, key=keys[2])
        self.activation = activation

    def __call__(
        self, x: Float[Array, "seq d_model"], *, tap: Tap = identity
    ) -> Float[Array, "seq d_model"]:
        pre = tap("pre", per_token(self.gate, x), "seq d_mlp")
        pre_linear = tap("pre_linear", per_token(self.expand, x), "seq d_mlp")
        post = tap("post", self.activation(pre) * pre_linear, "seq d_mlp")
        return tap("out", per_token(self.contract, post), "seq d_model")
