"""Measures of the weights, without a forward: copying, matching, composition, biases.

Scales and offsets of LayerNorms are folded into the weights that read them
(`icl.models.fold_layer_norms`). The mean of what a norm reads is subtracted, as the
norm does. Its division by the standard deviation is left out, because that depends on
the input. Rotary positions are left out too (`opto.circuits`).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree

import opto
from opto.circuits import copying_score, Factored, HeadWeights, ov, qk

from ..checks import check_index, check_one_of
from ..models import ExemplarLabelModel, fold_layer_norms
from ._layers import stacked
from ._measure import OfModel
from ._text import register


Into = Literal["queries", "keys", "values"]


_OF_LOGITS: Any = {"reads": "weights", "needs": ("unembed",)}
_OF_HEADS: Any = {"reads": "weights", "needs": ("unembed", "blocks")}
_TABLES = ("embedding.label", "embedding.exemplar")
_OF_TOKENS: Any = {"reads": "weights", "needs": ("unembed", "blocks", *_TABLES)}


@register
def unembedding_biases() -> OfModel:
    """The bias of each label's logit: `[label]`."""
    return OfModel(_biases, "label", "bias of the unembedding", **_OF_LOGITS)


@register
def constant_logits() -> OfModel:
    """The constant part of the logits: bias and the last norm's offset, `[label]`."""
    return OfModel(_constant, "label", "constant part of the logit", **_OF_LOGITS)


@register
def ov_copying(layer: int | None = None) -> OfModel:
    r"""How much each head raises the logits of the labels it attends to, in [-1, 1].

    $\sum_i \lambda_i / \sum_i |\lambda_i|$ over the eigenvalues of $W_U W_{OV} W_E$,
    from label embeddings to the labels' logits (Elhage et al. 2021).

    **Arguments:** `layer`: One layer, which gives `[head]`; `None` takes every layer
    and gives `[layer, head]`.
    """
    return _per_head(_copying, layer, "copying score of OV")


@register
def qk_matching(layer: int | None = None) -> OfModel:
    r"""How much each head attends to an exemplar equal to the query, in [-1, 1].

    It is the copying score of $X W_{QK} X^\top$, where $X$ are embedded exemplars: the
    first exemplar of each of the task's classes. It is near one for a head that attends
    to equal tokens.

    **Arguments:** `layer`: As for `ov_copying`.
    """
    return _per_head(_matching, layer, "matching score of QK")


@register
def induction_matching(writer: int = 0, reader: int = 1) -> OfModel:
    r"""Like `qk_matching`, for exemplars that an earlier layer's heads copied.

    `[head, writer_head]`: the copying score of $X W_{QK} W_{OV} X^\top$, where $W_{QK}$
    is from the reader's head and $W_{OV}$ from the writer's. It is near one for an
    induction head and the previous-token head that writes its keys (Elhage et al.
    2021).

    **Arguments:** `writer`, `reader`: Layers, the first before the second.
    """
    _check_order(writer, reader)

    def fn(model: Any, task: Any, batch: PyTree, edits: tuple) -> Array:
        early, late = _pair(model, writer, reader)
        exemplars = _exemplars(model, task)
        written = ov(early) @ exemplars.T

        def score(circuit: Factored) -> Array:
            return jax.vmap(lambda w: copying_score(exemplars @ circuit @ w))(written)

        return jax.vmap(score)(qk(late))

    return OfModel(
        fn, "head writer_head", "matching score through a head", **_OF_TOKENS
    )


@register
def composition(into: Into = "keys", writer: int = 0, reader: int = 1) -> OfModel:
    r"""How much the heads of a later layer read what the heads of a layer write.

    `[head, writer_head]`, in [0, 1]: $\|R W\| / (\|R\|\,\|W\|)$ in Frobenius norms
    (Elhage et al. 2021).

    **Arguments:**

    - `into`: What the later heads compute from it: `"queries"`, `"keys"` or `"values"`.
    - `writer`, `reader`: Layers, the first before the second.
    """
    check_one_of("into", into, Into)
    _check_order(writer, reader)
    score = getattr(opto.circuits, f"{into[0]}_composition")

    def fn(model: Any, task: Any, batch: PyTree, edits: tuple) -> Array:
        return score(*_pair(model, writer, reader))

    return OfModel(fn, "head writer_head", f"composition into {into}", **_OF_HEADS)


def _biases(model: Any, task: Any, batch: PyTree, edits: tuple) -> Array:
    return model.unembed.bias


def _constant(model: Any, task: Any, batch: PyTree, edits: tuple) -> Array:
    return _biases(fold_layer_norms(model), task, batch, edits)


def _copying(model: ExemplarLabelModel, weights: HeadWeights, task: Any) -> Array:
    embedded = _read(model, model.embedding.label.weight)
    return copying_score(_read(model, model.unembed.weight) @ ov(weights) @ embedded.T)


def _matching(model: ExemplarLabelModel, weights: HeadWeights, task: Any) -> Array:
    exemplars = _exemplars(model, task)
    return copying_score(exemplars @ qk(weights) @ exemplars.T)


def _per_head(
    score: Callable[[ExemplarLabelModel, HeadWeights, Any], Float[Array, " head"]],
    layer: int | None,
    label: str,
) -> OfModel:
    if layer is not None:
        check_index("layer", layer)

    def fn(model: Any, task: Any, batch: PyTree, edits: tuple) -> Array:
        model = fold_layer_norms(model)
        if layer is not None:
            return score(model, _heads(model, layer), task)
        layers = range(len(model.blocks))
        return stacked([score(model, _heads(model, i), task) for i in layers])

    return OfModel(
        fn, "head" if layer is not None else "layer head", label, **_OF_TOKENS
    )


def _pair(model: Any, writer: int, reader: int) -> tuple[HeadWeights, HeadWeights]:
    """The heads of two layers; the reader's ignore the mean, as its norm does."""
    model = fold_layer_norms(model)
    late = _heads(model, reader)
    read = {
        name: _read(model, getattr(late, name)) for name in ("query", "key", "value")
    }
    return _heads(model, writer), dataclasses.replace(late, **read)


def _heads(model: Any, layer: int) -> HeadWeights:
    if layer >= len(model.blocks):
        raise ValueError(f"layer must be below {len(model.blocks)}, got {layer}")
    return model.blocks[layer].attn.head_weights


def _exemplars(model: ExemplarLabelModel, task: Any) -> Float[Array, "class d_model"]:
    """The first exemplar of each of the task's classes, as a norm lets it through."""
    # Else all of the data, perhaps half a gigabyte, becomes a constant of the program.
    with jax.ensure_compile_time_eval():
        shown = task.data[task.class_ids, task.exemplar_ids[0]]
    return _read(model, jax.vmap(model.embedding.exemplar)(shown))


def _read(
    model: Any, vectors: Float[Array, "*batch d_model"]
) -> Float[Array, "*batch d_model"]:
    """Removes the mean from vectors or weights, if the model's norms remove it."""
    if not isinstance(model.final_norm, eqx.nn.LayerNorm):
        return vectors
    return vectors - vectors.mean(-1, keepdims=True)


def _check_order(writer: int, reader: int) -> None:
    check_index("writer", writer)
    check_index("reader", reader)
    if writer >= reader:
        raise ValueError(
            f"writer must be a layer before reader, got {writer} and {reader}"
        )
