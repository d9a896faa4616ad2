"""Linear functions of few components."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ....checks import check_scale, positive
from .._function import FunctionClass, linear, Parameters, Size


@dataclasses.dataclass(frozen=True)
class SparseLinear(FunctionClass):
    r"""$f(x) = s\, w \cdot x$ with normal weights, of which only a few are not zero.

    Which ones is random among the first components that are in use, as in the public
    code (Garg et al. 2022, section 5).
    """

    sparsity: int = 3
    """How many weights are not zero; all, if fewer components are in use."""
    scale: float = 1.0
    """$s$, above 0."""

    def __post_init__(self):
        positive("sparsity", self.sparsity)
        check_scale("scale", self.scale)

    def check(self, dim: int) -> None:
        if self.sparsity > dim:
            got = f"got {self.sparsity}"
            raise ValueError(f"sparsity must be at most dim={dim}, {got}")

    def draw(self, points, dim, *, active, key) -> Parameters:
        weights_key, order_key = jax.random.split(key)
        weights = jax.random.normal(weights_key, (dim,))
        # Components that are not in use come last in the random order.
        order = jax.random.uniform(order_key, (dim,)) + (jnp.arange(dim) >= active)
        rank = jnp.argsort(jnp.argsort(order))
        kept = rank < jnp.minimum(self.sparsity, active)
        return {"w": jnp.where(kept, weights, 0)}

    def values(
        self, parameters: Parameters, xs: Float[Array, "point dim"]
    ) -> Float[Array, " point"]:
        return linear(xs, parameters["w"], self.scale)

    def mean_square(self, dim, inputs, *, active) -> Size:
        """As if there were only the components whose weights are not zero."""
        smaller = min if isinstance(active, int) else jnp.minimum
        kept = smaller(self.sparsity, active)
        return self.scale**2 * kept * inputs.second
