"""Tables of all kinds of tasks, attention and models.

`test_kinds.py` runs every row through the tests that all kinds must pass. A new kind
gets a row here. Only tests of what is special about it go into its own file. Other
tables:
`EDITS` in `tapped.py` for edits of one site, `CASES` in `test_verbs.py` for patterns,
`EDITS` in `test_text.py` for the texts of edits, `TEXTS` in `test_measures.py` for
measures, `OPTIMIZERS` in `test_optimizers.py`.
"""

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
from language import NextToken
from regression import linear, regression

from icl.models import (
    AbstractAttention,
    Causal,
    ContextOnly,
    ElementwiseRebasedAttention,
    Everything,
    exemplar_label_interface,
    FavorAttention,
    Learned,
    LinearAttention,
    NoPositions,
    QueriesSeeContext,
    RebasedAttention,
    RelaAttention,
    Rope,
    Sinusoidal,
    SoftmaxAttention,
    TransformerConfig,
    UnstabilisedFavorAttention,
    Window,
)
from icl.models.attention.mixed import MixedAttention
from icl.models.attention.product import ProductAttention
from icl.models.attention.sum_normalised import SumNormalisedAttention
from icl.models.decoder import (
    DecoderConfig,
    LayerNormConfig,
    PlainMLPConfig,
    RMSNormConfig,
)
from icl.models.encoder import EncoderConfig, InterleavedTokens, PointTokens
from icl.models.gpt2 import ExactGelu, GPT2Config, Relu
from icl.models.linear_attention import LinearSelfAttentionConfig
from icl.models.regression_transformer import RegressionTransformerConfig
from icl.models.softmax_copy import SoftmaxCopyConfig
from icl.models.supervision import EveryLayer
from icl.protocols import AttentionConfig, ModelConfig
from icl.tasks.discrimination import NoisyLabels, ShiftedMean, ShuffledPairs, Variance
from icl.tasks.exemplar_label import (
    Context,
    ExemplarLabel,
    FlippedLabels,
    Matched,
    Mixture,
    QueryLabelOnContext,
    Relabel,
    Split,
    Zipf,
)
from icl.tasks.functions import Curriculum, InContextFunction, Ramp
from icl.tasks.functions.classes import (
    AffineFunction,
    DecisionTree,
    LinearClassification,
    NoisyLinear,
    QuadraticFunction,
    SparseLinear,
    TwoLayerReLU,
    UniformLinear,
)
from icl.tasks.functions.classes.noisy import ExpectedSize
from icl.tasks.functions.shifts import (
    OppositeQuery,
    OrthantContext,
    OrthogonalQuery,
    OverlappingQuery,
    ScaledInputs,
    ScaledQuery,
    SkewedInputs,
    SubspaceInputs,
)
from icl.tasks.regression import (
    CorrelatedInputs,
    EasyToHard,
    GaussianInputs,
    HardToEasy,
    LinearRegression,
    MatchedMarginals,
    NoisyValues,
    RandomOrder,
    RandomPairs,
    SmallToLargeNorm,
    UniformPairs,
)
from icl.tasks.tokens import FewShotLabels, MarkovRepeats, RepeatedTokens


CLASSES, EXEMPLARS, DIM = 6, 3, 7


def exemplar_label(**fields: Any) -> Callable[[], Any]:
    """A function that makes an exemplar-label task on vectors."""
    config = ExemplarLabel(
        class_split=Split(CLASSES, seed=None),
        exemplar_split=Split(EXEMPLARS, seed=None),
        **fields,
    )
    rng = np.random.default_rng(0)
    data = rng.normal(size=(CLASSES, EXEMPLARS, DIM)).astype(np.float32)
    return lambda: config.build(jnp.asarray(data))


MIXTURE = Mixture(
    (Context(3, 1), Context(3, 0), Context(3, 2, no_support=True)), (0.5, 0.3, 0.2)
)
FUNCTIONS: dict[str, Callable[[], Any]] = {
    "next_token": NextToken,
    "function": lambda: InContextFunction(dim=3, points=5),
    "noisy_function": lambda: InContextFunction(
        NoisyLinear(size=ExpectedSize()), 3, 5, SkewedInputs()
    ),
    "sparse_function": lambda: InContextFunction(
        SparseLinear(2),
        dim=3,
        points=5,
        curriculum=Curriculum(Ramp(2, 3, 1, 8), Ramp(3, 5, 2, 8)),
    ),
    "affine_function": lambda: InContextFunction(
        AffineFunction(), 3, 5, SubspaceInputs(1)
    ),
    "uniform_function": lambda: InContextFunction(
        UniformLinear(), 3, 5, ScaledInputs(2.0)
    ),
    "classified": lambda: InContextFunction(LinearClassification(), 3, 5),
    "query_quadratic": lambda: InContextFunction(
        QuadraticFunction(), 3, 5, ScaledQuery(2.0)
    ),
    "query_relu": lambda: InContextFunction(TwoLayerReLU(4), 3, 5, OrthantContext(3)),
    "query_tree": lambda: InContextFunction(DecisionTree(3), 3, 5, OppositeQuery(2)),
    "query_orthogonal": lambda: InContextFunction(
        dim=3, points=5, shift=OrthogonalQuery(2)
    ),
    "query_overlapping": lambda: InContextFunction(
        dim=3, points=5, shift=OverlappingQuery()
    ),
}
TASKS: dict[str, Callable[[], Any]] = {
    "pair": exemplar_label(),
    "four": exemplar_label(context=Context(4, 1)),
    "relabel": exemplar_label(labels=Relabel(5, split=Split(8, 2))),
    "zipf": exemplar_label(context=Context(4, 1, True), distribution=Zipf(1.0)),
    "matched": exemplar_label(context=MIXTURE, exemplar_choice=Matched()),
    "flipped": exemplar_label(labels=FlippedLabels()),
    "query_label": exemplar_label(
        context=Context(no_support=True), labels=QueryLabelOnContext()
    ),
    "noise": exemplar_label(noise=0.5),
    "regression": regression,
    "linear_regression": LinearRegression,
    "noisy_regression": lambda: LinearRegression(3, 5, GaussianInputs(0.7), noise=0.5),
    "queries": lambda: LinearRegression(3, 5, GaussianInputs(), noise=0.5, queries=4),
    "small_norm_first": lambda: LinearRegression(
        2, 5, CorrelatedInputs(((2.0, 0.3), (0.3, 1.0))), ordering=SmallToLargeNorm()
    ),
    "random_order": lambda: LinearRegression(3, 5, ordering=RandomOrder()),
    "noisy_first": lambda: LinearRegression(
        3, 5, ordering=HardToEasy(), pair_noise=NoisyValues(0.4, 0.8, "noisy_first")
    ),
    "random_pairs": lambda: LinearRegression(3, 5, pair_noise=RandomPairs(0.4)),
    "matched_pairs": lambda: LinearRegression(
        3,
        5,
        ordering=EasyToHard(),
        pair_noise=RandomPairs(0.4, MatchedMarginals(), "clean_first"),
    ),
    "uniform_pairs": lambda: LinearRegression(
        3, 5, pair_noise=RandomPairs(0.4, UniformPairs())
    ),
    "shifted_mean": lambda: ShiftedMean(3, 5, 0.7),
    "noisy_labels": lambda: ShiftedMean(4, 6, 0.3, context_change=NoisyLabels(0.3)),
    "variance": lambda: Variance(3, 5, context_change=ShuffledPairs()),
    "repeated_tokens": lambda: RepeatedTokens(7, copy=4),
    "markov_repeats": lambda: MarkovRepeats(9, length=8, successors=3),
    "few_shot_labels": lambda: FewShotLabels(9, ((1, 2), (3, 4)), (5, 6), pairs=5),
    **FUNCTIONS,
}
# Arrays of an example that are the same in each.
CONSTANT = {
    name: {"mean_square", *(() if name.startswith("query_") else ("counts",))}
    for name in FUNCTIONS
} | dict.fromkeys(("random_pairs", "uniform_pairs"), {"order"})  # As they were drawn.


@dataclass(frozen=True)
class Model:
    """A kind of model: how to make one from a key, and a task that it fits."""

    build: Callable[[Any], eqx.Module]
    task: str = "four"
    causal: bool = True
    """Whether output *i* depends only on inputs 0 to *i*, along the first axes."""


@dataclass(frozen=True)
class SignedAttention(AttentionConfig):
    """Query-key products as weights, as a plug-in might; rows are no distribution."""

    def build(self, num_heads, d_head, *, scale, key):
        return _Signed()


class _Signed(AbstractAttention):
    name: ClassVar = "SignedAttention"
    before: ClassVar = "kernel"
    rows: ClassVar = "signed"
    bilinear: ClassVar = True

    def __call__(self, q, k, v, seen, *, tap):
        kernel = jnp.where(seen, jnp.einsum("qhd,khd->hqk", q, k), 0)
        kernel = self.name_before(tap, kernel)
        pattern = self.name_pattern(tap, kernel / k.shape[0])
        return jnp.einsum("hqk,khd->qhd", pattern, v)


@dataclass(frozen=True)
class Attention:
    """A kind of attention, and oracles for it.

    - `weights`: One query's weights on the keys that it sees, `(query, keys, scale)`.
    - `arrays`: What else `weights` takes: the kind's own arrays, of one head.
    - `mix`: What enters the output projection, `(z [seq, head, d_head], kind)`.
    - `epsilon`: What is added to the sum by which kernels are divided; `None` if rows
        are not divided.
    """

    config: AttentionConfig
    weights: Callable[..., np.ndarray] | None
    arrays: Callable[[Any, int], dict[str, Any]] = lambda kind, head: {}
    mix: Callable[[np.ndarray, Any], np.ndarray] = lambda z, kind: z
    epsilon: float | None = None

    def of_head(self, kind: Any, head: int) -> Callable[..., np.ndarray]:
        """The weights of one head of a built kind."""
        assert self.weights
        return functools.partial(self.weights, **self.arrays(kind, head))


def _directions(kind: Any, head: int) -> dict[str, Any]:
    return {"directions": np.asarray(kind.directions.value, np.float64)}


def _gain_and_offset(kind: Any, head: int) -> dict[str, Any]:
    both = {"gain": kind.gain, "offset": kind.offset}
    return {name: np.asarray(x[head], np.float64) for name, x in both.items()}


def _gated(z: np.ndarray, kind: Any) -> np.ndarray:
    return oracles.gated(z, np.asarray(kind.gain), np.asarray(kind.gate))


ATTENTIONS: dict[str, Attention] = {
    "softmax": Attention(SoftmaxAttention(), oracles.softmax_weights),
    "linear": Attention(LinearAttention(), oracles.linear_weights, epsilon=0),
    "rela": Attention(RelaAttention(), oracles.rela_weights, mix=_gated),
    "favor": Attention(FavorAttention(), oracles.favor_weights, _directions, epsilon=0),
    "unstabilised_favor": Attention(
        UnstabilisedFavorAttention(),
        oracles.unstabilised_favor_weights,
        _directions,
        epsilon=1e-6,
    ),
    "rebased": Attention(
        RebasedAttention(), oracles.rebased_weights, _gain_and_offset, epsilon=1e-6
    ),
    "elementwise": Attention(
        ElementwiseRebasedAttention(),
        oracles.elementwise_weights,
        _gain_and_offset,
        epsilon=1e-6,
    ),
    "product": Attention(ProductAttention(), oracles.product_weights),
    # Its weights depend on a learned number; test_gd_upstream.py has its oracle.
    "mixed": Attention(MixedAttention(), None),
    "sum_normalised": Attention(
        SumNormalisedAttention(), oracles.sum_normalised_weights
    ),
    "signed": Attention(SignedAttention(), None),
}


MASKS = {
    "causal": Causal(),
    "everything": Everything(),
    "context_only": ContextOnly(),
    "two_queries": ContextOnly(2),
    "window": Window(3),
    "global": Window(2, (1, 4, 90)),
    "queries_see_context": QueriesSeeContext(2),
    "causal_context": QueriesSeeContext(3, Causal()),
}

TRANSFORMERS: dict[str, TransformerConfig] = {
    "paper": TransformerConfig(),
    "mlp": TransformerConfig(mlp_ratio=4.0, num_layers=3, d_model=16, num_heads=2),
    "ragged_heads": TransformerConfig(num_heads=(2, 8)),
    "no_norm": TransformerConfig(layer_norm=False, init_scale=0.5),
    "not_causal": TransformerConfig(causal=False, scale=0.3),
    "qkv_bias": TransformerConfig(qkv_bias=True),
    "learned": TransformerConfig(positions=Learned(32)),
    "sinusoidal": TransformerConfig(positions=Sinusoidal(100.0)),
    "no_positions": TransformerConfig(positions=NoPositions()),
    "rope_30": TransformerConfig(positions=Rope(30.0)),
    "deep": TransformerConfig(num_layers=5),
    "linear_attention": TransformerConfig(attention=LinearAttention()),
    "linear_not_causal": TransformerConfig(attention=LinearAttention(), causal=False),
    "multi_query": TransformerConfig(num_kv_heads=1),
    "grouped_linear": TransformerConfig(
        num_heads=(4, 8), num_kv_heads=2, attention=LinearAttention(), qkv_bias=True
    ),
    "context_only": TransformerConfig(mask=ContextOnly(), mlp_ratio=1.0),
    "context_only_linear": TransformerConfig(
        mask=ContextOnly(), attention=LinearAttention(), positions=Learned(32)
    ),
    "product_attention": TransformerConfig(attention=ProductAttention()),
    "mixed_layers": TransformerConfig(
        num_layers=3,
        num_heads=4,
        attention=(RelaAttention(), SoftmaxAttention(), FavorAttention()),
        mask=(Causal(), Window(2, (1,)), Window(3)),
        num_kv_heads=(None, 1, 2),
    ),
    "mixed_kernels": TransformerConfig(
        num_layers=3,
        num_heads=4,
        attention=(
            UnstabilisedFavorAttention(),
            ElementwiseRebasedAttention(),
            RebasedAttention(),
        ),
        num_kv_heads=(2, None, 1),
        qkv_bias=True,
    ),
    "scaled_kinds": TransformerConfig(
        num_heads=4, attention=(RelaAttention(), FavorAttention(20)), scale=0.7
    ),
    "context_only_product": TransformerConfig(
        mask=ContextOnly(), attention=ProductAttention(), scale=0.3, num_kv_heads=2
    ),
}


def _model(config: TransformerConfig) -> Model:
    build = lambda key: config.build(
        exemplar_label_interface(CLASSES, dim=DIM), key=key
    )
    return Model(
        build, causal=all(isinstance(mask, Causal | Window) for mask in config.seen)
    )


def _on(task: str, config: ModelConfig) -> Model:
    interface = TASKS[task]().interface
    return Model(lambda key: config.build(interface, key=key), task, causal=False)


def _regressing(task: str, **fields: Any) -> Model:
    return _on(task, LinearSelfAttentionConfig(**fields))


def _transforming(task: str, **fields: Any) -> Model:
    sizes = {"num_layers": 2, "d_model": 8, "num_heads": 2}
    return _on(task, RegressionTransformerConfig(**sizes | fields))


def _encoding(task: str, **fields: Any) -> Model:
    return _on(task, EncoderConfig(d_model=8, num_heads=2, **fields))


def _decoding(task: str, **fields: Any) -> Model:
    config = DecoderConfig(d_model=8, num_heads=2, init_std=0.4, **fields)
    return _on(task, config)


def _gpt2(task: str, causal: bool = False, **fields: Any) -> Model:
    config = GPT2Config(num_layers=2, d_model=8, num_heads=2, max_length=12, **fields)
    return dataclasses.replace(_on(task, config), causal=causal)


MODELS: dict[str, Model] = {
    **{name: _model(config) for name, config in TRANSFORMERS.items()},
    "signed_attention": _model(TransformerConfig(attention=SignedAttention())),
    "linear": Model(lambda key: linear(), task="regression", causal=False),
    "linear_self_attention": _regressing("linear_regression"),
    "deep_linear_self_attention": _regressing("noisy_regression", num_layers=3),
    "tied_linear_self_attention": _regressing(
        "noisy_regression", num_layers=3, tied=True
    ),
    "queries_in_linear_self_attention": _regressing(
        "queries", num_layers=2, supervision=EveryLayer()
    ),
    "softmax_copy": _on("noisy_regression", SoftmaxCopyConfig()),
    "softmax_copy_of_queries": _on(
        "queries", SoftmaxCopyConfig(position_channels=3, supervision=EveryLayer())
    ),
    "regression_transformer": _transforming("queries"),
    "regression_transformer_of_one": _transforming(
        "noisy_regression", positions=Learned(8), context_mask=Causal(), mlp_ratio=None
    ),
    "tied_regression_transformer": _transforming(
        "queries", num_layers=3, tied=True, supervision=EveryLayer(), layer_norm=False
    ),
    "encoder": _encoding("shifted_mean"),
    "encoder_without_positions": _encoding("variance", positions=NoPositions()),
    "encoder_of_points": _encoding("noisy_labels", num_layers=3, tokens=PointTokens()),
    "interleaved_encoder": _encoding("variance", tokens=InterleavedTokens()),
    "decoder": _decoding("repeated_tokens", num_kv_heads=1, tied=False),
    "parallel_decoder": _decoding(
        "markov_repeats",
        norm=LayerNormConfig(),
        mlp=PlainMLPConfig(ExactGelu()),
        residual="parallel",
        positions=Rope(share=0.5, pairs="halves"),
        mask=(Window(3), Causal()),
        qkv_bias=True,
    ),
    "decoder_with_head_norms": _decoding(
        "few_shot_labels", head_norm=RMSNormConfig(), d_head=6
    ),
    "gpt2": _gpt2("next_token"),
    "untied_gpt2": _gpt2("next_token", tied=False, d_mlp=5, activation=ExactGelu()),
    "gpt2_of_points": _gpt2("function", causal=True),
    "windowed_gpt2_of_points": _gpt2(
        "function",
        causal=True,
        attention=(RelaAttention(), ElementwiseRebasedAttention()),
        mask=Window(6, (1,)),
    ),
    "mixed_gpt2_of_points": _gpt2(
        "noisy_function",
        causal=True,
        attention=(LinearAttention(), SoftmaxAttention()),
        num_kv_heads=1,
        scale=(None, 0.7),
        activation=Relu(),
        layer_norm_epsilon=1e-3,
    ),
}


def shaken(model: Any, key: Any) -> Any:
    """Moves all arrays away from their initial zeros and ones, so that each matters."""
    leaves, structure = jax.tree.flatten(eqx.filter(model, eqx.is_inexact_array))
    keys = jax.random.split(key, len(leaves))
    leaves = [
        x + 0.2 * jax.random.normal(k, x.shape)
        for x, k in zip(leaves, keys, strict=True)
    ]
    return eqx.combine(jax.tree.unflatten(structure, leaves), model)
