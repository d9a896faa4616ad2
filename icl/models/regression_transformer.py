"""A transformer on points with their values, and queries that do not see each other.

A pair's token is $[x, y, 0]$ and a query's is $[x, 0, 1]$, both through one linear
layer. Blocks have norms before attention and MLP. One read-out, a norm and a linear
layer, is shared by all layers.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from opto import identity, Tap

from ..checks import check_scale
from ..protocols import AttentionConfig, Interface, Mask, ModelConfig
from ._init import linear
from ._layer_settings import check_length, check_widths
from ._layers import per_token
from ._positions import AbstractPositions, NoPositions, Positions
from ._regression import answer_axes, answers, dim_of
from ._transformer import block, norm, TransformerBlock
from .attention import Everything, QueriesSeeContext, SoftmaxAttention
from .supervision import FinalLayer, Supervision


class RegressionTransformer(eqx.Module):
    """Tokens, blocks and the shared read-out, for one example.

    Tied layers are one block that is applied several times.
    """

    embedding: eqx.nn.Linear
    positions: AbstractPositions
    blocks: tuple[TransformerBlock, ...]
    final_norm: eqx.Module
    readout: eqx.nn.Linear
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

        Queries' values are not read. With `EveryLayer`, the first axis is `layer`. The
        last block computes only the queries' rows, unless `tap` asks for a site there.
        """
        stream = per_token(self.embedding, self._tokens(x, y))
        stream = tap("tok_embed", stream, "seq d_model")
        stream = tap("embed", self.positions.embed(stream), "seq d_model")
        pairs, streams, last = len(x) - self.num_queries, [], self.num_layers - 1
        for i in range(self.num_layers):
            layer, name = self.blocks[i % len(self.blocks)], f"blocks.{i}"
            start = pairs if i == last and not tap.wants(name) else 0
            scope = tap.scope(name)
            stream = layer(stream, self.positions, start=start, tap=scope)
            streams.append(stream)
        final = tap.scope("final")  # Only the last layer's norm has a site.
        read = lambda x: self.read(x, final if x is streams[-1] else identity)
        found = self.supervision.predict(read, streams)
        return tap("prediction", found, answer_axes(self))

    def read(
        self, stream: Float[Array, "seq d_model"], tap: Tap = identity
    ) -> Float[Array, "*query"]:
        """The prediction from the residual stream after any layer."""
        normed = per_token(self.final_norm, stream[-self.num_queries :], tap)
        return answers(per_token(self.readout, normed)[:, 0], self.num_queries)

    def _tokens(
        self, x: Float[Array, "point dim"], y: Float[Array, " point"]
    ) -> Float[Array, "point channel"]:
        known = y.at[-self.num_queries :].set(0)
        marks = jnp.zeros_like(y).at[-self.num_queries :].set(1)
        return jnp.concatenate([x, known[:, None], marks[:, None]], 1)


@dataclasses.dataclass(frozen=True)
class RegressionTransformerConfig(ModelConfig):
    """The shape of a transformer for regression; weights start LeCun normal."""

    num_layers: int = 12
    """How often a block is applied."""
    d_model: int = 128
    """Width of the residual stream."""
    num_heads: int = 4
    """Heads of each block; must divide `d_model`."""
    mlp_ratio: float | None = 4.0
    """Hidden units of the MLPs divided by `d_model`; `None` is attention only."""
    tied: bool = False
    """Whether all layers share their weights, or each has its own."""
    supervision: Supervision = FinalLayer()
    """Which layers' predictions the model gives, so that their loss is trained."""
    positions: Positions = NoPositions()
    """The encoding of positions; without one, the order of pairs does not matter."""
    attention: AttentionConfig = SoftmaxAttention()
    """The kind of attention."""
    context_mask: Mask = Everything()
    """Which pairs each pair sees. Queries see all pairs and themselves."""
    layer_norm: bool = True
    """Whether blocks and the read-out have LayerNorms."""
    init_scale: float = 1.0
    """The factor on the initial weight matrices."""

    def __post_init__(self):
        check_widths(self)
        check_scale("init_scale", self.init_scale)

    def build(
        self, interface: Interface, *, key: PRNGKeyArray
    ) -> RegressionTransformer:
        """A freshly initialised model of points and their values.

        **Raises:** `ValueError` for other inputs, or if there are more points than
        positions.
        """
        dim, points = dim_of(self, interface), interface.inputs[0].shape[0]
        check_length(self.positions, points)
        embed_key, position_key, read_key, block_key = jax.random.split(key, 4)
        keys = jax.random.split(block_key, 1 if self.tied else self.num_layers)
        settings = {"bias": True, "scale": self.init_scale}
        return RegressionTransformer(
            linear(dim + 2, self.d_model, key=embed_key, **settings),
            self.positions.build(self.d_model, key=position_key),
            tuple(self._block(interface.num_queries, key) for key in keys),
            norm(self.d_model, self.layer_norm),
            linear(self.d_model, 1, key=read_key, **settings),
            self.num_layers,
            interface.num_queries,
            self.supervision,
        )

    def _block(self, queries: int, key: PRNGKeyArray) -> TransformerBlock:
        return block(
            self.d_model,
            self.num_heads,
            mlp_ratio=self.mlp_ratio,
            layer_norm=self.layer_norm,
            attention=self.attention,
            mask=QueriesSeeContext(queries, self.context_mask),
            init_scale=self.init_scale,
            key=key,
        )
