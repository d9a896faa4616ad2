"""The GPT-2 family: pre-norm transformers of token ids, or of points and values.

GPT-2 is by Radford et al. (2019). Garg et al. (2022, arXiv 2208.01066) give it points
and values of functions instead of words.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..checks import check_not_negative, check_number, check_scale, positive
from ..protocols import AttentionConfig, Interface, Mask, ModelConfig
from ._gpt2 import (
    AbstractGPT2 as AbstractGPT2,
    GPT2Points as GPT2Points,
    GPT2Tokens as GPT2Tokens,
)
from ._init import linear_with
from ._layer_settings import check_widths, per_layer
from ._mlp import (
    Activation,
    ExactGelu as ExactGelu,
    MLP,
    Relu as Relu,
    TanhGelu as TanhGelu,
)
from ._positions import LearnedPositions
from ._transformer import TransformerBlock
from .attention import Attention, Causal, SoftmaxAttention


_BY_LAYER = ("attention", "num_kv_heads", "mask", "scale")


@dataclasses.dataclass(frozen=True)
class GPT2Config(ModelConfig):
    """The shape of a GPT-2; the task decides whether it reads ids or points.

    All layers have biases, which start at zero. Weights start normal with standard
    deviation `init_std`; those that write into the residual stream have
    `init_std / sqrt(2 * num_layers)`. The layers that read points and give values
    start uniform, with their biases, in one over the root of the number of inputs.

    `attention`, `num_kv_heads`, `mask` and `scale` are one for all layers, or one for
    each.
    """

    num_layers: int = 12
    """Number of blocks, at least one."""
    d_model: int = 256
    """Width of the residual stream."""
    num_heads: int = 8
    """Heads of each block; must divide `d_model`."""
    d_mlp: int | None = None
    """Hidden units of the MLPs; `None` is four times `d_model`."""
    max_length: int = 202
    """The number of tokens of the longest sequence; a point is two tokens."""
    attention: AttentionConfig | tuple[AttentionConfig, ...] = SoftmaxAttention()
    """How queries, keys and values are combined."""
    num_kv_heads: int | tuple[int | None, ...] | None = None
    """Number of key and value heads; `None` is as many as `num_heads`."""
    mask: Mask | tuple[Mask, ...] = Causal()
    """Which tokens a token sees; never a later one."""
    scale: float | tuple[float | None, ...] | None = None
    """The factor on the attention scores; `None` is the kind's own."""
    activation: Activation = TanhGelu()
    """Between the two layers of an MLP: `TanhGelu`, `ExactGelu` or `Relu`."""
    layer_norm_epsilon: float = 1e-5
    """Added to the variance in all LayerNorms."""
    init_std: float = 0.02
    """The standard deviation of the initial weights."""
    tied: bool = True
    """Whether logits of tokens are read with the embedding's table, or with another."""

    def __post_init__(self):
        check_widths(self)
        positive("max_length", self.max_length)
        if self.d_mlp is not None:
            positive("d_mlp", self.d_mlp)
        check_not_negative("layer_norm_epsilon", self.layer_norm_epsilon)
        check_scale("init_std", self.init_std)
        for name in ("attention", "mask"):
            self._of_layers(name)
        for scale in self._of_layers("scale"):
            if scale is not None:
                check_number("scale", scale)

    def build(
        self, interface: Interface, *, key: PRNGKeyArray
    ) -> GPT2Tokens | GPT2Points:
        """A freshly initialised model.

        **Raises:** `ValueError` unless the inputs are ids `[seq]` with as many outputs
        as ids, or points `[point, dim]` with their values and one output. Also if a
        sequence of the task is longer than `max_length`, or a mask shows later tokens.
        """
        of_ids, size, length = _sizes(interface)
        if length > self.max_length:
            wanted = f"max_length must be at least {length} for this task"
            raise ValueError(f"{wanted}, got {self.max_length}")
        for mask in self._of_layers("mask"):
            if np.triu(mask.seen(length, 0), 1).any():
                raise ValueError(f"mask must not show later tokens, got {mask}")
        read_key, position_key, out_key, *keys = jax.random.split(
            key, 3 + self.num_layers
        )
        body: dict[str, Any] = {
            "positions": LearnedPositions(
                self._normal(self.max_length, key=position_key)
            ),
            "blocks": tuple(self._block(i, key=k) for i, k in enumerate(keys)),
            "final_norm": self._norm(),
        }
        if of_ids:
            table = eqx.nn.Embedding(weight=self._normal(size, key=read_key))
            own = None if self.tied else linear_with(self._normal(size, key=out_key))
            return GPT2Tokens(embedding=table, untied=own, **body)
        if not self.tied:
            raise ValueError("tied must be True for points, which have no table")
        read_in = eqx.nn.Linear(size, self.d_model, key=read_key)
        unembed = eqx.nn.Linear(self.d_model, 1, key=out_key)
        return GPT2Points(read_in=read_in, unembed=unembed, **body)

    def _normal(self, rows: int, *, key: PRNGKeyArray) -> Float[Array, "row d_model"]:
        return self.init_std * jax.random.normal(key, (rows, self.d_model))

    def _of_layers(self, name: str) -> tuple[Any, ...]:
        """The value of each layer."""
        return per_layer(name, getattr(self, name), self.num_layers)

    def _norm(self) -> eqx.nn.LayerNorm:
        return eqx.nn.LayerNorm(self.d_model, eps=self.layer_norm_epsilon)

    def _block(self, layer: int, *, key: PRNGKeyArray) -> TransformerBlock:
        attn_key, mlp_key, weights_key = jax.random.split(key, 3)
        of = {name: self._of_layers(name)[layer] for name in _BY_LAYER}
        attn = Attention(
            self.d_model,
            self.num_heads,
            kind=of["attention"],
            num_kv_heads=of["num_kv_heads"],
            mask=of["mask"],
            qkv_bias=True,
            scale=of["scale"],
            key=attn_key,
            output_bias=True,
        )
        d_mlp = 4 * self.d_model if self.d_mlp is None else self.d_mlp
        mlp = MLP(
            self.d_model,
            d_mlp,
            init_scale=1.0,
            key=mlp_key,
            activation=self.activation,
        )
        block = TransformerBlock(self._norm(), attn, self._norm(), mlp)
        return self._initialised(block, key=weights_key)

    def _initialised(
        self, block: TransformerBlock, *, key: PRNGKeyArray
    ) -> TransformerBlock:
        """The block with the normal weights of GPT-2."""
        reading = lambda b: (b.attn.query, b.attn.key, b.attn.value, b.mlp.expand)
        writing = lambda b: (b.attn.output, b.mlp.contract)
        weights = lambda b: [layer.weight for layer in (*reading(b), *writing(b))]
        small = self.init_std / math.sqrt(2 * self.num_layers)
        stds = [self.init_std] * 4 + [small] * 2
        new = [
            std * jax.random.normal(k, weight.shape)
            for std, weight, k in zip(
                stds, weights(block), jax.random.split(key, 6), strict=True
            )
        ]
        return eqx.tree_at(weights, block, new)


def _sizes(interface: Interface) -> tuple[bool, int, int]:
    """Whether inputs are ids; the number of ids or components; and of tokens."""
    inputs, outputs = interface.inputs, interface.num_outputs
    ranks = [len(x.shape) for x in inputs]
    if ranks == [1] and inputs[0].count is not None and inputs[0].count == outputs:
        return True, outputs, inputs[0].shape[0]
    if ranks == [2, 1] and not any(x.count for x in inputs) and outputs == 1:
        points, dim = inputs[0].shape
        return False, dim, 2 * points
    wanted = "ids with a logit for each, or points, their values and one output"
    raise ValueError(f"GPT2Config needs {wanted}; this task has {interface}")


SIZES: Mapping[str, GPT2Config] = {
    "tiny": GPT2Config(num_layers=3, d_model=64, num_heads=2),
    "small": GPT2Config(num_layers=6, d_model=128, num_heads=4),
    "standard": GPT2Config(num_layers=12, d_model=256, num_heads=8),
}
"""The three sizes of Garg et al. (2022)."""
