"""Small transformers that name every intermediate value.

Configs that build models belong here, and the parts that several models share. A file
with a config is found because it is here. `attention` has the kinds of attention, and
`icl.tasks` what a model is asked to do.

A task's `interface` decides which models can learn it:

- exemplars with a label each (`exemplar_label_interface`): `TransformerConfig`. The
  task's `forward` takes `model.query_logits`, or the last of the model's logits.
- points with a value each: `RegressionTransformerConfig`, `SoftmaxCopyConfig`,
  `LinearSelfAttentionConfig`, `GPT2Config`.
- ids: `GPT2Config`.
- labelled points and a query: `EncoderConfig`.
"""

from ._embedding import ExemplarLabelEmbedding as ExemplarLabelEmbedding
from ._exemplar_label import (
    exemplar_label_interface as exemplar_label_interface,
    ExemplarLabelModel as ExemplarLabelModel,
    QueryRows as QueryRows,
    TransformerConfig as TransformerConfig,
)
from ._fold import fold_layer_norms as fold_layer_norms
from ._known_exemplars import (
    with_known_exemplars as with_known_exemplars,
    with_known_tokens as with_known_tokens,
)
from ._mlp import MLP as MLP
from ._positions import (
    Learned as Learned,
    LinearScaling as LinearScaling,
    Llama3Scaling as Llama3Scaling,
    NoPositions as NoPositions,
    Positions as Positions,
    Rope as Rope,
    Sinusoidal as Sinusoidal,
)
from ._transformer import TransformerBlock as TransformerBlock
from .attention import (
    AbstractAttention as AbstractAttention,
    Attention as Attention,
    Causal as Causal,
    ContextOnly as ContextOnly,
    ElementwiseRebasedAttention as ElementwiseRebasedAttention,
    Everything as Everything,
    FavorAttention as FavorAttention,
    LinearAttention as LinearAttention,
    ProductAttention as ProductAttention,
    QueriesSeeContext as QueriesSeeContext,
    RebasedAttention as RebasedAttention,
    RelaAttention as RelaAttention,
    SoftmaxAttention as SoftmaxAttention,
    UnstabilisedFavorAttention as UnstabilisedFavorAttention,
    Window as Window,
)
