"""Decision trees."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._function import check_numbers, FunctionClass, Parameters, Size


@dataclasses.dataclass(frozen=True)
class DecisionTree(FunctionClass):
    r"""A full binary tree; each node asks whether a random component is above 0.

    Its leaves have normal values (Garg et al. 2022, section 5). Node *i* has the
    children $2 i + 1$ and $2 i + 2$. A component above 0 leads to the second one; at
    exactly 0, the first one is next.
    """

    depth: int = 4
    """How many questions lead to a leaf."""

    def __post_init__(self):
        check_numbers(self)

    def draw(self, points, dim, *, active, key) -> Parameters:
        nodes = 2 ** (self.depth + 1) - 1
        asked, leaves = jax.random.split(key)
        return {
            "coordinates": jax.random.randint(asked, (nodes,), 0, dim),
            # Values at inner nodes are never reached; so the arrays have one shape.
            "leaves": jax.random.normal(leaves, (nodes,)),
        }

    def values(self, parameters, xs):
        def one(x: Float[Array, " dim"]) -> Float[Array, ""]:
            node = jnp.zeros((), int)
            for _ in range(self.depth):
                node = 2 * node + 1 + (x[parameters["coordinates"][node]] > 0)
            return parameters["leaves"][node]

        return jax.vmap(one)(xs)

    def mean_square(self, dim, inputs, *, active) -> Size:
        """1, whatever the points are: the mean square of a leaf."""
        return 1.0
