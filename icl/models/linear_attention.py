r"""Linear self-attention on concatenated tokens (von Oswald et al., 2023, section 2).

A token is a point and its value, $e_i = (x_i, y_i)$; the query is $(x, 0)$. A layer
adds $P V \sum_i e_i (K e_i) \cdot (Q e_j)$ to token $j$; keys and values are those of
the context only. One layer can do a step of gradient descent on the context's squared
error; the query's last component is then minus the prediction.
"""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from opto import identity, Tap

from ..checks import check_scale, positive
from ..protocols import Interface, ModelConfig
from ._positions import AbstractPositions, NoPositions
from ._regression import answers, dim_of, predicted
from .attention import Attention, ContextOnly
from .attention.product import ProductAttention
from .stack import ResidualUpdate, StackBlock
from .supervision import FinalLayer, Supervision


class LinearSelfAttention(eqx.Module):
    """Layers of linear self-attention, for one example.

    Tied layers are one block that is applied several times.
    """

    blocks: tuple[StackBlock, ...]
    positions: AbstractPositions
    num_layers: int = eqx.field(static=True)
    num_queries: int = eqx.field(static=True, default=1)
    supervision: Supervision = eqx.field(static=True, default=FinalLayer())
    input_axes: tuple[str, str] = eqx.field(static=True, default=("point dim", "point"))

    def __call__(
        self,
        x: Float[Array, "point dim"],
        y: Float[Array, " point"],
        *,
        tap: Tap = identity,
    ) -> Float[Array, "*answer"]:
        """The prediction for the last point, or `[query]` for several.

        Queries' values are not read. With `EveryLayer`, the first axis is `layer`.
        """
        known = y.at[-self.num_queries :].set(0)
        tokens = jnp.concatenate([x, known[:, None]], 1)
        return predicted(self, tokens, tap)

    def read(self, stream: Float[Array, "seq d_model"]) -> Float[Array, "*query"]:
        """The prediction from the residual stream after a layer."""
        return answers(-stream[:, -1], self.num_queries)


@dataclasses.dataclass(frozen=True)
class LinearSelfAttentionConfig(ModelConfig):
    """The shape of linear self-attention; its weights are normal and small.

    A weight's variance is `init_variance / num_layers` over the number of its inputs.
    """

    num_layers: int = 1
    """How often attention is applied."""
    tied: bool = False
    """Whether all layers share their weights, or each has its own."""
    init_variance: float = 0.002
    """The scale of the initial weights, as a variance, not a standard deviation."""
    update: ResidualUpdate = ResidualUpdate()
    """How a layer changes the residual stream."""
    supervision: Supervision = FinalLayer()
    """Which layers' predictions the model gives, so that their loss is trained."""

    def __post_init__(self):
        positive("num_layers", self.num_layers)
        check_scale("init_variance", self.init_variance)

    def build(self, interface: Interface, *, key: PRNGKeyArray) -> LinearSelfAttention:
        """A freshly initialised model of points and their values.

        **Raises:** `ValueError` for other inputs.
        """
        d_model, queries = 1 + dim_of(self, interface), interface.num_queries
        keys = jax.random.split(key, 1 if self.tied else self.num_layers)
        blocks = tuple(self._block(d_model, queries, block_key) for block_key in keys)
        positions = NoPositions().build(d_model, key=key)
        return LinearSelfAttention(
            blocks, positions, self.num_layers, queries, self.supervision
        )

    def _block(self, d_model: int, queries: int, key: PRNGKeyArray) -> StackBlock:
        attn = Attention(
            d_model,
            1,
            kind=ProductAttention(),
            mask=ContextOnly(queries),
            init_scale=math.sqrt(self.init_variance / self.num_layers),
            key=key,
        )
        return StackBlock(attn, eqx.nn.Identity(), None, self.update)
