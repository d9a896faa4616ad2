"""Language models since GPT-2: Pythia, Llama, Mistral, Qwen, Gemma and their like."""

import dataclasses
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from opto import identity, Tap

from ..checks import (
    check_axes,
    check_divisor,
    check_not_negative,
    check_number,
    check_one_of,
    check_scale,
    positive,
)
from ..protocols import Interface, Mask, ModelConfig
from ..roles import PADDING
from ._init import linear_with
from ._layer_settings import per_layer
from ._layers import looked_up, per_token, RMSNorm
from ._mlp import (
    Activation as Activation,
    ExactGelu as ExactGelu,
    GatedMLP,
    MLP,
    Relu as Relu,
    Silu as Silu,
    TanhGelu as TanhGelu,
)
from ._positions import Rope, Rotary
from ._transformer import ParallelBlock, TransformerBlock
from .attention import Attention, Causal, SoftmaxAttention


Residual = Literal["sequential", "parallel"]


@dataclasses.dataclass(frozen=True)
class RMSNormConfig:
    """Divides by the root of the mean square, without a mean or a bias."""

    epsilon: float = 1e-6
    """Added to the mean square."""
    offset: float = 0.0
    """Added to the weight; 1 in Gemma."""

    def __post_init__(self):
        check_not_negative("epsilon", self.epsilon)
        check_number("offset", self.offset)

    def build(self, size: int) -> RMSNorm:
        """A norm that scales by one."""
        return RMSNorm(jnp.ones(size) - self.offset, self.epsilon, self.offset)


@dataclasses.dataclass(frozen=True)
class LayerNormConfig:
    """Takes the mean away and divides by the standard deviation."""

    epsilon: float = 1e-5
    """Added to the variance."""

    def __post_init__(self):
        check_not_negative("epsilon", self.epsilon)

    def build(self, size: int) -> eqx.nn.LayerNorm:
        """A norm that scales by one."""
        return eqx.nn.LayerNorm(size, eps=self.epsilon)


@dataclasses.dataclass(frozen=True)
class PlainMLPConfig:
    """Linear, activation, linear."""

    activation: Activation
    bias: bool = True
    """Whether its layers have biases."""

    def build(self, d_model: int, d_mlp: int, *, key: PRNGKeyArray) -> MLP:
        given = {"activation": self.activation, "bias": self.bias}
        return MLP(d_model, d_mlp, init_scale=1.0, key=key, **given)


@dataclasses.dataclass(frozen=True)
class GatedMLPConfig:
    """One linear layer times the activation of another, then linear."""

    activation: Activation = Silu()
    bias: bool = False
    """Whether its layers have biases."""

    def build(self, d_model: int, d_mlp: int, *, key: PRNGKeyArray) -> GatedMLP:
        given = {"activation": self.activation, "bias": self.bias}
        return GatedMLP(d_model, d_mlp, key=key, **given)


@dataclasses.dataclass(frozen=True)
class DecoderConfig(ModelConfig):
    """A causal language model with rotary positions.

    Weights start normal with standard deviation `init_std`, biases at zero.
    """

    num_layers: int = 2
    """Number of blocks, at least one."""
    d_model: int = 64
    """Width of the residual stream."""
    num_heads: int = 4
    """Heads of each block."""
    num_kv_heads: int | None = None
    """Number of key and value heads; `None` is as many as `num_heads`."""
    d_head: int | None = None
    """Width of a head; `None` is `d_model / num_heads`."""
    d_mlp: int | None = None
    """Hidden units of the MLPs; `None` is four times `d_model`."""
    norm: RMSNormConfig | LayerNormConfig = RMSNormConfig()
    """Before attention, MLP and unembedding."""
    head_norm: RMSNormConfig | None = None
    """Of each head's queries and keys, before they turn."""
    positions: Rope = Rope(pairs="halves")
    """How queries and keys turn."""
    mask: Mask | tuple[Mask, ...] = Causal()
    """Which tokens a token sees, in all layers or in each; never a later one."""
    mlp: PlainMLPConfig | GatedMLPConfig = GatedMLPConfig()
    """The kind of MLP."""
    residual: Residual = "sequential"
    """Whether MLPs read what attention wrote, or the same as attention."""
    qkv_bias: bool = False
    """Whether queries, keys and values have a bias."""
    output_bias: bool = False
    """Whether the output of attention has a bias."""
    embedding_scale: float = 1.0
    """The factor on the embedding; the root of `d_model` in Gemma."""
    tied: bool = True
    """Whether logits are read with the embedding's table, or with another."""
    soft_cap: float | None = None
    """Logits x become c tanh(x / c) with this c."""
    max_length: int | None = None
    """The most tokens of a sequence; `None` is any number."""
    init_std: float = 0.02
    """The standard deviation of the initial weights."""

    def __post_init__(self):
        for name in ("num_layers", "d_model", "num_heads"):
            positive(name, getattr(self, name))
        if self.d_head is None:
            check_divisor("num_heads", self.num_heads, "d_model", self.d_model)
        else:
            positive("d_head", self.d_head)
        if self.num_kv_heads is not None:
            kv_heads = "num_kv_heads", self.num_kv_heads
            check_divisor(*kv_heads, "num_heads", self.num_heads)
        if self.d_mlp is not None:
            positive("d_mlp", self.d_mlp)
        if self.positions.turning(self._width) % 2:
            got = f"got {self.positions} and heads of width {self._width}"
            raise ValueError(f"an even number of entries of a head must turn, {got}")
        per_layer("mask", self.mask, self.num_layers)
        check_one_of("residual", self.residual, Residual)
        check_number("embedding_scale", self.embedding_scale)
        check_scale("init_std", self.init_std)
        if self.soft_cap is not None:
            check_scale("soft_cap", self.soft_cap)
        if self.max_length is not None:
            positive("max_length", self.max_length)

    @property
    def _width(self) -> int:
        return self.d_model // self.num_heads if self.d_head is None else self.d_head

    def build(self, interface: Interface, *, key: PRNGKeyArray) -> "Decoder":
        """A freshly initialised model.

        **Raises:** `ValueError` unless the inputs are ids `[seq]` with as many outputs
        as ids, and if a mask shows later tokens.
        """
        inputs, count = interface.inputs, interface.num_outputs
        if [(len(x.shape), x.count) for x in inputs] != [(1, count)]:
            wanted = "ids with a logit for each"
            raise ValueError(f"DecoderConfig needs {wanted}; this task has {interface}")
        length = inputs[0].shape[0]
        masks = per_layer("mask", self.mask, self.num_layers)
        for mask in masks:
            if np.triu(mask.seen(length, 0), 1).any():
                raise ValueError(f"mask must not show later tokens, got {mask}")
        keys = jax.random.split(key, self.num_layers + 3)
        empty = eqx.nn.Embedding(weight=jnp.zeros((count, self.d_model)))
        model = Decoder(
            empty,
            tuple(map(self._block, masks, keys[3:])),
            self.norm.build(self.d_model),
            None if self.tied else linear_with(jnp.zeros((count, self.d_model))),
            self,
        )
        return self._initialised(model, key=keys[0])

    def _block(self, mask: Mask, key: PRNGKeyArray) -> TransformerBlock | ParallelBlock:
        attn_key, mlp_key = jax.random.split(key)
        attn = Attention(
            self.d_model,
            self.num_heads,
            kind=SoftmaxAttention(),
            mask=mask,
            key=attn_key,
            num_kv_heads=self.num_kv_heads,
            qkv_bias=self.qkv_bias,
            output_bias=self.output_bias,
            d_head=self.d_head,
            head_norm=None if self.head_norm is None else self.head_norm.build,
        )
        d_mlp = 4 * self.d_model if self.d_mlp is None else self.d_mlp
        mlp = self.mlp.build(self.d_model, d_mlp, key=mlp_key)
        kind = ParallelBlock if self.residual == "parallel" else TransformerBlock
        norms = [self.norm.build(self.d_model) for _ in range(2)]
        return kind(norms[0], attn, norms[1], mlp)

    def _initialised(self, model: "Decoder", *, key: PRNGKeyArray) -> "Decoder":
        """The model with normal matrices."""
        leaves, tree = jax.tree.flatten(model)
        keys = jax.random.split(key, len(leaves))
        normal = lambda x, k: self.init_std * jax.random.normal(k, x.shape)
        pairs = zip(leaves, keys, strict=True)
        return tree.unflatten(normal(x, k) if x.ndim == 2 else x for x, k in pairs)


class Decoder(eqx.Module):
    """A language model: from the ids of a sequence to the next token's logits."""

    embedding: eqx.nn.Embedding
    blocks: tuple[TransformerBlock | ParallelBlock, ...]
    final_norm: RMSNorm | eqx.nn.LayerNorm
    untied: eqx.nn.Linear | None
    """The unembedding, or `None` if it is the embedding's own table."""
    config: DecoderConfig = eqx.field(static=True)
    input_axes: tuple[str] = eqx.field(static=True, default=("seq",))

    @property
    def unembed(self) -> eqx.nn.Linear:
        """The layer that gives logits, `[label, d_model]`."""
        return self.untied or linear_with(self.embedding.weight)

    def __call__(
        self, ids: Int[Array, " seq"], *, tap: Tap = identity
    ) -> Float[Array, "seq label"]:
        """The logits at each token.

        Tokens with the id `PADDING`, -1, are not there: no token sees them, and
        positions count the others only. Their own logits mean nothing. Any other id
        that does not exist gives NaN.

        **Raises:** `ValueError` for more than `max_length` tokens.
        """
        ids = jnp.asarray(ids)
        check_axes(ids=(ids, "seq"))
        if (most := self.config.max_length) is not None and len(ids) > most:
            raise ValueError(f"ids must have at most {most} tokens, got {len(ids)}")
        ids = tap.scope("tokens")("id", ids, "seq")
        real = ids != PADDING
        x = looked_up(self.embedding.weight, jnp.where(real, ids, 0))
        # Rounded as the embedding is, which matters in 16 bits.
        x = x * jnp.asarray(self.config.embedding_scale, x.dtype)
        x = tap("embed", tap("tok_embed", x, "seq d_model"), "seq d_model")
        counts = jnp.maximum(jnp.cumsum(real) - 1, 0)
        positions = Rotary(self.config.positions, counts)
        for i, block in enumerate(self.blocks):
            x = block(x, positions, real=real, tap=tap.scope(f"blocks.{i}"))
        final = tap.scope("final")
        x = final("in", x, "seq d_model")
        x = final("normed", per_token(self.final_norm, x, final), "seq d_model")
        logits = per_token(self.unembed, x)
        if (cap := self.config.soft_cap) is not None:
            logits = cap * jnp.tanh(logits / cap)
        return tap("logits", logits, "seq label")
