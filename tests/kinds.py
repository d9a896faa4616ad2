"""Tables of all kinds of tasks, attention and models.

`test_kinds.py` runs every row through the tests that all kinds must pass. A new kind
gets a row here. Only tests of what is special about it go into its own file. Other
tables:
`EDITS` in `tapped.py` for edits of one site, `CASES` in `test_verbs.py` for patterns,
`EDITS` in `test_text.py` for the texts of edits, `TEXTS` in `test_measures.py` for
measures, `OPTIMIZERS` in `test_optimizers.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
from regression import linear, regression

from icl.models import (
    AbstractAttention,
    Causal,
    ContextOnly,
    Everything,
    exemplar_label_interface,
    Learned,
    LinearAttention,
    NoPositions,
    QueriesSeeContext,
    Rope,
    Sinusoidal,
    SoftmaxAttention,
    TransformerConfig,
)
from icl.models.attention.mixed import MixedAttention
from icl.models.attention.product import ProductAttention
from icl.models.attention.sum_normalised import SumNormalisedAttention
from icl.models.encoder import EncoderConfig, InterleavedTokens, PointTokens
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
}


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
    """A kind of attention, and an oracle: one query's weights on the keys it sees."""

    config: AttentionConfig
    weights: Callable[..., np.ndarray] | None


ATTENTIONS: dict[str, Attention] = {
    "softmax": Attention(SoftmaxAttention(), oracles.softmax_weights),
    "linear": Attention(LinearAttention(), oracles.linear_weights),
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
    "context_only_product": TransformerConfig(
        mask=ContextOnly(), attention=ProductAttention(), scale=0.3, num_kv_heads=2
    ),
}


def _model(config: TransformerConfig) -> Model:
    build = lambda key: config.build(
        exemplar_label_interface(CLASSES, dim=DIM), key=key
    )
    return Model(build, causal=isinstance(config.seen, Causal))


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
