"""A bidirectional post-norm encoder of labelled points and a query."""

import dataclasses

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from opto import identity, Tap

from ..checks import check_scale
from ..protocols import Interface, ModelConfig
from ._init import linear
from ._labelled_points import (
    AbstractPointEmbedding,
    InterleavedEmbedding as InterleavedEmbedding,
    InterleavedTokens as InterleavedTokens,
    PointTokenKind,
    PointTokens as PointTokens,
    SummedEmbedding as SummedEmbedding,
    SummedTokens as SummedTokens,
)
from ._layer_settings import check_length, check_widths
from ._layers import per_token
from ._mlp import ExactGelu, MLP
from ._positions import AbstractPositions, Learned, NoPositions
from ._torch_weights import TorchWeights as TorchWeights
from ._transformer import PostNormBlock
from .attention import Attention, Everything, SoftmaxAttention


class Encoder(eqx.Module):
    """Tokens, post-norm blocks and a read-out of the query, for one example."""

    embedding: AbstractPointEmbedding
    positions: AbstractPositions
    blocks: tuple[PostNormBlock, ...]
    head: eqx.nn.Linear
    input_axes: tuple[str, str, str] = eqx.field(
        static=True, default=("pair dim", "pair", "dim")
    )

    def __call__(
        self,
        context_x: Float[Array, "pair dim"],
        context_y: Int[Array, " pair"],
        query_x: Float[Array, " dim"],
        *,
        tap: Tap = identity,
    ) -> Float[Array, ""]:
        """The logit of label 1 for the query.

        The last block computes only the query's row, unless `tap` asks for a site
        there.
        """
        x = self.embedding(context_x, context_y, query_x, tap=tap)
        x = tap("tok_embed", x, "seq d_model")
        x = tap("embed", self.positions.embed(x), "seq d_model")
        last = f"blocks.{len(self.blocks) - 1}"
        start = 0 if tap.wants(last, "logits") else len(x) - 1
        for i, block in enumerate(self.blocks):
            is_last = i == len(self.blocks) - 1
            scope = tap.scope(f"blocks.{i}")
            x = block(x, self.positions, start=start if is_last else 0, tap=scope)
        return tap("logits", per_token(self.head, x), "seq output")[-1, 0]


@dataclasses.dataclass(frozen=True)
class EncoderConfig(ModelConfig):
    """The shape of an encoder of labelled points (arXiv 2603.10573).

    All layers have biases, and GELU is exact. Weights start LeCun normal times
    `init_scale`, and biases at zero.
    """

    num_layers: int = 2
    """Number of blocks, at least one."""
    d_model: int = 128
    """Width of the residual stream."""
    num_heads: int = 4
    """Heads of each block; must divide `d_model`."""
    mlp_ratio: float = 4.0
    """Hidden units of the MLPs divided by `d_model`."""
    tokens: PointTokenKind = SummedTokens()
    """How points and labels become tokens."""
    positions: Learned | NoPositions = Learned(129)
    """Learned vectors of positions, or none."""
    init_scale: float = 3**-0.5
    """The factor on the initial weight matrices; the default gives the variance of
    PyTorch's linear layers."""
    initial: TorchWeights | None = None
    """All initial weights as in the public code, in place of those above."""

    def __post_init__(self):
        check_widths(self)
        check_scale("init_scale", self.init_scale)

    def build(self, interface: Interface, *, key: PRNGKeyArray) -> Encoder:
        """A freshly initialised encoder.

        **Raises:** `ValueError` unless the inputs are labelled points and a query, or
        if there are more tokens than positions.
        """
        context, dim = _sizes(interface)
        check_length(self.positions, self.tokens.count(context))
        embed_key, position_key, head_key, *keys = jax.random.split(
            key, 3 + self.num_layers
        )
        settings = {"init_scale": self.init_scale}
        found = Encoder(
            self.tokens.build(dim, self.d_model, key=embed_key, **settings),
            self.positions.build(self.d_model, key=position_key),
            tuple(self._block(block_key) for block_key in keys),
            linear(self.d_model, 1, bias=True, scale=self.init_scale, key=head_key),
        )
        return found if self.initial is None else self.initial.draw(found, key=key)

    def _block(self, key: PRNGKeyArray) -> PostNormBlock:
        attn_key, mlp_key = jax.random.split(key)
        attn = Attention(
            self.d_model,
            self.num_heads,
            kind=SoftmaxAttention(),
            mask=Everything(),
            qkv_bias=True,
            init_scale=self.init_scale,
            key=attn_key,
            output_bias=True,
        )
        mlp = MLP(
            self.d_model,
            int(self.mlp_ratio * self.d_model),
            init_scale=self.init_scale,
            key=mlp_key,
            activation=ExactGelu(),
        )
        norms = eqx.nn.LayerNorm(self.d_model), eqx.nn.LayerNorm(self.d_model)
        return PostNormBlock(attn, norms[0], mlp, norms[1])


def _sizes(interface: Interface) -> tuple[int, int]:
    """The number of pairs and of components of a point."""
    ranks = [len(x.shape) for x in interface.inputs]
    counts = [x.count for x in interface.inputs]
    fits = ranks == [2, 1, 1] and counts == [None, 2, None]
    if not fits or interface.num_outputs != 1:
        wanted = "points [pair, dim], their labels 0 or 1, a query, and one output"
        raise ValueError(f"EncoderConfig needs {wanted}; this task has {interface}")
    pairs, dim = interface.inputs[0].shape
    return pairs, dim
