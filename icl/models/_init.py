"""Weight initialisation."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


def linear(
    in_features: int, out_features: int, *, bias: bool, scale: float, key: PRNGKeyArray
) -> eqx.nn.Linear:
    """A linear layer with LeCun-normal weights times `scale` and zero bias.

    LeCun normal: truncated at two standard deviations, variance `1 / in_features`
    (LeCun et al. 1998, "Efficient BackProp").
    """
    layer = eqx.nn.Linear(in_features, out_features, use_bias=bias, key=key)
    init = jax.nn.initializers.lecun_normal(in_axis=1, out_axis=0)
    weight = scale * init(key, (out_features, in_features))
    layer = eqx.tree_at(lambda x: x.weight, layer, weight)
    if bias:
        zeros = jnp.zeros(out_features)
        layer = eqx.tree_at(lambda x: x.bias, layer, zeros)
    return layer


def linear_with(
    weight: Float[Array, "out in"], bias: Float[Array, " out"] | None = None
) -> eqx.nn.Linear:
    """A linear layer with these arrays."""
    out, into = weight.shape
    empty = eqx.filter_eval_shape(
        eqx.nn.Linear, into, out, use_bias=bias is not None, key=jax.random.key(0)
    )
    if bias is None:
        return eqx.tree_at(lambda x: x.weight, empty, weight)
    return eqx.tree_at(lambda x: (x.weight, x.bias), empty, (weight, bias))
