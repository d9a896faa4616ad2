"""The main model: a transformer that labels the query of an exemplar-label sequence."""

import dataclasses

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from opto import identity, Tap
from opto.toolkit import Rows

from ..checks import check_number, check_scale
from ..protocols import AttentionConfig, Input, Interface, Mask, ModelConfig
from ._embedding import embedding, ExemplarLabelEmbedding
from ._init import linear
from ._layer_settings import check_widths, per_layer
from ._layers import per_token
from ._positions import Positions, Rope
from ._transformer import block, norm, TransformerBlock
from .attention import Causal, Everything, SoftmaxAttention


class ExemplarLabelModel(eqx.Module):
    """Embedding, transformer blocks, final norm and unembedding, for one sequence.

    A sequence is the pair `examples [exemplar, dim]`, `labels [exemplar]`: context
    pairs in order, then the query with the label to predict. That last label is in the
    arrays, as in the published data files, but the model never reads it.
    """

    embedding: ExemplarLabelEmbedding
    blocks: tuple[TransformerBlock, ...]
    final_norm: eqx.Module
    unembed: eqx.nn.Linear
    input_axes: tuple[str, str] = eqx.field(static=True)

    def __call__(
        self,
        examples: Float[Array, "exemplar dim"] | Int[Array, " exemplar"],
        labels: Int[Array, " exemplar"],
        *,
        tap: Tap = identity,
    ) -> Float[Array, "exemplar label"]:
        """The logits at each exemplar; the last row is the query's."""
        # Exemplars are at the even positions: 0, 2, …, and the query comes last.
        return self._logits(examples, labels, 0, tap)[::2]

    def query_logits(
        self,
        examples: Float[Array, "exemplar dim"] | Int[Array, " exemplar"],
        labels: Int[Array, " exemplar"],
        *,
        tap: Tap = identity,
    ) -> Float[Array, " label"]:
        """The query's logits, `model(examples, labels)[-1]`, at a lower cost.

        The last block computes only the query's row, unless `tap` asks for a site
        there.
        """
        last = f"blocks.{len(self.blocks) - 1}"
        start = 0 if tap.wants(last, "final", "logits") else 2 * (len(examples) - 1)
        return self._logits(examples, labels, start, tap)[-1]

    def _logits(self, examples, labels, start: int, tap: Tap):
        """Logits of the tokens from `start` on; only the last block skips rows."""
        x = self.embedding(examples, labels, tap=tap)
        for i, layer in enumerate(self.blocks):
            last = i == len(self.blocks) - 1
            x = layer(
                x,
                self.embedding.positions,
                start=start if last else 0,
                tap=tap.scope(f"blocks.{i}"),
            )
        final = tap.scope("final")
        x = final("in", x, "seq d_model")
        x = final("normed", per_token(self.final_norm, x, final), "seq d_model")
        return tap("logits", per_token(self.unembed, x), "seq label")


class QueryRows(Tap):
    """A tap under which `query_logits` computes only the query's row of the last block.

    Every value recorded there has only that row: a pattern is `[head, 1, kv_seq]`.
    """

    def __init__(self, tap: Tap):
        self._tap = tap

    def __call__(
        self, name: str, value: Array, axes: str, *, rows: Rows | None = None
    ) -> Array:
        return self._tap(name, value, axes, rows=rows)

    def scope(self, name: str) -> Tap:
        return self._tap.scope(name)

    def wants(self, *names: str) -> bool:
        return False


@dataclasses.dataclass(frozen=True)
class TransformerConfig(ModelConfig):
    """The shape of a transformer; weights start LeCun normal and biases zero.

    The defaults are those of the induction-head paper (Singh et al. 2024, section 2).
    """

    num_layers: int = 2
    """Number of blocks, at least one."""
    d_model: int = 64
    """Width of the residual stream."""
    num_heads: int | tuple[int, ...] = 8
    """Heads of each block, or one number per block; must divide `d_model`."""
    mlp_ratio: float | None = None
    """Hidden units of the MLPs divided by `d_model`; `None` is attention only."""
    layer_norm: bool = True
    """Whether a LayerNorm comes before each part and at the end, or nowhere."""
    causal: bool = True
    """Whether a token sees only itself and earlier tokens, or everything."""
    positions: Positions = Rope()
    """`Rope`, `Sinusoidal`, `Learned` or `NoPositions`."""
    qkv_bias: bool = False
    """Whether queries, keys and values have a bias."""
    scale: float | None = None
    """The factor on the attention scores; `None` is one over root `d_head`."""
    init_scale: float = 1.0
    """The factor on the initial weight matrices, except the label embedding."""
    attention: AttentionConfig | tuple[AttentionConfig, ...] = SoftmaxAttention()
    """How queries, keys and values are combined, or one kind per block."""
    num_kv_heads: int | tuple[int | None, ...] | None = None
    """Number of key and value heads of each block, or one number per block. 1 is
    multi-query attention, a divisor of `num_heads` is grouped-query attention, and
    `None` is as many as `num_heads`."""
    mask: Mask | tuple[Mask, ...] | None = None
    """Which tokens a token sees, or one mask per block; `None` is as `causal` says."""

    def __post_init__(self):
        check_widths(self)
        if self.scale is not None:
            check_number("scale", self.scale)
        check_scale("init_scale", self.init_scale)
        for name in ("attention", "mask"):
            per_layer(name, getattr(self, name), self.num_layers)
        for count in self.heads:
            if isinstance(self.positions, Rope) and self.d_model // count % 2:
                raise ValueError(
                    f"Rope needs an even d_head, got d_model={self.d_model} with "
                    f"num_heads={count}: d_head={self.d_model // count}"
                )
        if self.mask is not None and not self.causal:
            raise ValueError(f"give either mask={self.mask} or causal=False, not both")

    @property
    def seen(self) -> tuple[Mask, ...]:
        """Which tokens a token sees in each block."""
        usual = Causal() if self.causal else Everything()
        masks = usual if self.mask is None else self.mask
        return per_layer("mask", masks, self.num_layers)

    @property
    def heads(self) -> tuple[int, ...]:
        """The number of heads of each block."""
        return per_layer("num_heads", self.num_heads, self.num_layers)

    @property
    def kv_heads(self) -> tuple[int | None, ...]:
        """The number of key and value heads of each block, as configured."""
        return per_layer("num_kv_heads", self.num_kv_heads, self.num_layers)

    def build(self, interface: Interface, *, key: PRNGKeyArray) -> ExemplarLabelModel:
        """A freshly initialised model of exemplar-label sequences.

        **Raises:** `ValueError` unless the inputs are exemplars (vectors or ids) with
        one label each.
        """
        num_labels, dim, num_exemplars = _sizes(interface)
        embed_key, position_key, unembed_key, *keys = jax.random.split(
            key, 3 + self.num_layers
        )
        kinds = per_layer("attention", self.attention, self.num_layers)
        layers = zip(self.heads, self.kv_heads, kinds, self.seen, keys, strict=True)
        blocks = tuple(
            block(
                self.d_model,
                heads,
                mlp_ratio=self.mlp_ratio,
                layer_norm=self.layer_norm,
                attention=kind,
                num_kv_heads=kv_heads,
                mask=mask,
                qkv_bias=self.qkv_bias,
                scale=self.scale,
                init_scale=self.init_scale,
                key=block_key,
            )
            for heads, kv_heads, kind, mask, block_key in layers
        )
        return ExemplarLabelModel(
            embedding(
                num_exemplars,
                dim,
                num_labels,
                self.d_model,
                self.positions.build(self.d_model, key=position_key),
                init_scale=self.init_scale,
                key=embed_key,
            ),
            blocks,
            norm(self.d_model, self.layer_norm),
            linear(
                self.d_model,
                num_labels,
                bias=True,
                scale=self.init_scale,
                key=unembed_key,
            ),
            ("exemplar" if dim is None else "exemplar dim", "exemplar"),
        )


def _sizes(interface: Interface) -> tuple[int, int | None, int | None]:
    """The number of labels; the length of an exemplar's vector; the number of ids."""
    if len(interface.inputs) == 2:
        examples, labels = interface.inputs
        vectors = len(examples.shape) == 2 and examples.count is None
        if labels.count == interface.num_outputs and len(labels.shape) == 1:
            if vectors:
                return interface.num_outputs, examples.shape[-1], None
            if len(examples.shape) == 1 and examples.count is not None:
                return interface.num_outputs, None, examples.count
    wanted = "exemplars [exemplar, dim] or ids, and labels as ids"
    raise ValueError(f"TransformerConfig reads {wanted}; this task has {interface}")


def exemplar_label_interface(
    num_labels: int,
    *,
    dim: int | None = None,
    num_exemplars: int | None = None,
    context: int = 2,
) -> Interface:
    """The interface that a model of exemplar-label sequences needs, without a task.

    **Arguments:**

    - `num_labels`: Number of labels, of the context and of the output.
    - `dim`: The length of an exemplar's vector.
    - `num_exemplars`: The number of ids, if exemplars are ids.
    - `context`: Pairs before the query. No model depends on it.

    **Raises:** `ValueError` unless either `dim` or `num_exemplars` is given.
    """
    if (dim is None) == (num_exemplars is None):
        raise ValueError("give either dim= for vectors or num_exemplars= for ids")
    length = context + 1
    examples = Input("examples", (length,), "int32", num_exemplars)
    if dim is not None:
        examples = Input("examples", (length, dim), "float32")
    labels = Input("labels", (length,), "int32", num_labels)
    return Interface((examples, labels), num_labels)
