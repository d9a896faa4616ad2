"""Layers of Equinox on all tokens of a sequence."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from opto import identity, Tap

from ..compile import computed_once
from ..devices import on_cpu


class RMSNorm(eqx.Module):
    """Divides by the root of the mean square (Zhang and Sennrich 2019, 1910.07467)."""

    weight: Float[Array, " size"]
    eps: float = eqx.field(static=True)
    offset: float = eqx.field(static=True, default=0.0)
    """Added to the weight; 1 in Gemma."""

    def __call__(
        self, x: Float[Array, "... size"], *, axes: str = "", tap: Tap = identity
    ) -> Float[Array, "... size"]:
        """Names its `scale`, by which it divides; `axes` are those of `x` but one.

        Squares are summed in 32 bits or more.
        """
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        scale = jnp.sqrt((wide**2).mean(-1) + self.eps)
        if tap.wants("scale"):
            scale = tap("scale", scale, axes)
        return (self.offset + self.weight) * (wide / scale[..., None]).astype(x.dtype)


def per_token(
    layer: eqx.Module, x: Shaped[Array, "seq ..."], tap: Tap = identity
) -> Float[Array, "seq out_features"]:
    """A sequence's tokens through a layer that takes one token, a vector or an id.

    A norm names its `scale` `[seq]`, by which it divides.
    """
    if isinstance(layer, RMSNorm):
        return layer(x, axes="seq", tap=tap)
    if isinstance(layer, eqx.nn.LayerNorm):
        return _layer_norm(layer, x, tap)
    if isinstance(layer, eqx.nn.Linear):
        return _linear(layer, x)
    # Map a lambda: JAX makes text of the mapped function, which is slow for a module.
    return jax.vmap(lambda token: layer(token))(x)  # pyright: ignore


def looked_up(
    table: Float[Array, "row d_model"], ids: Int[Array, "*batch"]
) -> Float[Array, "*batch d_model"]:
    """Rows of a table; NaN, not the nearest row, for an id that it does not have.

    **Raises:** `ValueError` for ids that are not whole numbers.
    """
    if not jnp.issubdtype(ids.dtype, jnp.integer):
        raise ValueError(f"ids must be whole numbers, got {ids.dtype}{[*ids.shape]}")
    return table.at[ids].get(
        mode="fill", fill_value=jnp.nan, wrap_negative_indices=False
    )


# Linear layers and norms are written for the whole sequence. With the layers' own code,
# a training step takes 1.1 to 2 times as long (benchmarks/plain.py): XLA's CPU compiler
# fuses it badly.


def _linear(
    layer: eqx.nn.Linear, x: Float[Array, "seq in_features"]
) -> Float[Array, "seq out_features"]:
    return _plus(computed_once(x @ layer.weight.T), layer.bias)


def _layer_norm(
    layer: eqx.nn.LayerNorm, x: Float[Array, "seq d_model"], tap: Tap
) -> Float[Array, "seq d_model"]:
    # In 32 bits or more: in 16, squares overflow.
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    centred = wide - wide.mean(-1, keepdims=True)
    scale = jnp.sqrt((centred**2).mean(-1, keepdims=True) + layer.eps)
    if tap.wants("scale"):
        scale = tap("scale", scale[:, 0], "seq")[:, None]
    if layer.weight is not None:
        centred = _rows(layer.weight, len(x)) * centred
    return _plus((centred / scale).astype(x.dtype), layer.bias)


def _plus(
    x: Float[Array, "seq out"], bias: Float[Array, " out"] | None
) -> Float[Array, "seq out"]:
    return x if bias is None else x + _rows(bias, len(x))


def _rows(vector: Float[Array, " out"], count: int) -> Float[Array, "seq out"]:
    """The vector for each token, with a gradient that is fast on a CPU.

    The gradient of a product with ones is one, too. XLA's CPU compiler is slow at the
    sum over all tokens that the gradient of a broadcast is. A GPU's product would round
    the vector.
    """
    if not on_cpu():
        return jnp.broadcast_to(vector, (count, len(vector)))
    return jnp.ones((count, 1), vector.dtype) @ vector[None]
