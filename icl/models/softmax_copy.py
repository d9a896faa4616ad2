r"""Attention on points and values as separate tokens (von Oswald et al. 2023, sec. 5).

Tokens are $x_1, y_1, x_2, y_2, \dots$, then the queries. A layer of softmax attention
can copy each value to its point; layers of linear attention then do gradient descent.
As in the paper, vectors of positions are appended to the tokens. Unlike in its code,
values have a channel of their own, and the prediction is read there: the code reads the
last channel, which is one of the positions.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from opto import identity, Tap

from ..checks import check_scale, positive
from ..protocols import AttentionConfig, Interface, ModelConfig
from ._positions import AbstractPositions, NoPositions, sinusoids
from ._regression import answers, dim_of, predicted
from .attention import Attention, ContextOnly, ProductAttention, SoftmaxAttention
from .stack import ResidualUpdate, StackBlock
from .supervision import FinalLayer, Supervision


class SoftmaxCopy(eqx.Module):
    """Layers of attention on interleaved tokens, for one example.

    A token is `[x, 0, position]` or `[0, y, position]`; channel `dim` has the values.
    """

    blocks: tuple[StackBlock, ...]
    positions: AbstractPositions
    position_channels: int = eqx.field(static=True)
    num_layers: int = eqx.field(static=True)
    num_queries: int = eqx.field(static=True)
    supervision: Supervision = eqx.field(static=True)
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
        tokens = interleaved(x, y, self.num_queries)
        table = sinusoids(len(tokens), self.position_channels).astype(tokens.dtype)
        tokens = jnp.concatenate([tokens, table], 1)
        return predicted(self, tokens, tap)

    def read(self, stream: Float[Array, "seq d_model"]) -> Float[Array, "*query"]:
        """The prediction from the residual stream after a layer."""
        channel = -1 - self.position_channels
        return answers(-stream[:, channel], self.num_queries)


def interleaved(
    x: Float[Array, "point dim"], y: Float[Array, " point"], num_queries: int
) -> Float[Array, "token channel"]:
    """Tokens $(x_1, 0), (0, y_1), (x_2, 0), \\dots$, then the queries $(x, 0)$."""
    points = jnp.pad(x, ((0, 0), (0, 1)))
    values = jnp.zeros_like(points).at[:, -1].set(y)
    pairs = len(y) - num_queries
    context = jnp.stack([points[:pairs], values[:pairs]], 1)
    return jnp.concatenate([context.reshape(2 * pairs, -1), points[pairs:]])


@dataclasses.dataclass(frozen=True)
class SoftmaxCopyConfig(ModelConfig):
    """The shape of the model; its weights are normal and small.

    A weight's variance is `init_variance` over the numbers of layers and of its inputs.
    Each layer has weights of its own; heads are as wide as the stream.
    """

    attention: tuple[AttentionConfig, ...] = (SoftmaxAttention(), ProductAttention())
    """The kind of attention of each layer."""
    position_channels: int = 10
    """How many sines and cosines of its position each token gets."""
    init_variance: float = 0.02
    """The scale of the initial weights, as a variance, not a standard deviation."""
    update: ResidualUpdate = ResidualUpdate()
    """How a layer changes the residual stream."""
    supervision: Supervision = FinalLayer()
    """Which layers' predictions the model gives, so that their loss is trained."""

    def __post_init__(self):
        positive("number of layers in attention", len(self.attention))
        positive("position_channels", self.position_channels)
        check_scale("init_variance", self.init_variance)
        if self.update.channels == "last":
            wanted = "'all': the last channel is one of the positions"
            raise ValueError(f"update.channels must be {wanted}, got 'last'")

    def build(self, interface: Interface, *, key: PRNGKeyArray) -> SoftmaxCopy:
        """A freshly initialised model of points and their values.

        **Raises:** `ValueError` for other inputs.
        """
        d_model = dim_of(self, interface) + 1 + self.position_channels
        layers, queries = len(self.attention), interface.num_queries
        scale = (self.init_variance / layers) ** 0.5

        def block(kind: AttentionConfig, key: PRNGKeyArray) -> StackBlock:
            attn = Attention(
                d_model,
                1,
                kind=kind,
                mask=ContextOnly(queries),
                init_scale=scale,
                key=key,
            )
            return StackBlock(attn, eqx.nn.Identity(), None, self.update)

        keys = jax.random.split(key, layers)
        blocks = tuple(map(block, self.attention, keys))
        positions = NoPositions().build(d_model, key=key)
        sizes = self.position_channels, layers, queries
        return SoftmaxCopy(blocks, positions, *sizes, self.supervision)
