"""Weights of implicit-likelihood-ratio-transformer, the code of arXiv 2603.10573.

Its variants differ in what is trained and in what is done to the context. The first is
`freeze` of an experiment here, the second `context_change` of a task.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import ArrayLike

from ..models import Learned, NoPositions
from ..models.encoder import (
    Encoder,
    EncoderConfig,
    InterleavedTokens,
    PointTokens,
    SummedEmbedding,
    SummedTokens,
)
from ..protocols import Input, Interface
from ._config import check_known, check_misspelt, check_sizes, read_config
from ._stored import empty, layer, Stored, with_arrays


_TOKENS = {
    "ICLTransformer": SummedTokens(),
    "ICLTransformerFrozenAttention": SummedTokens(),
    "ICLTransformerFrozenPos": SummedTokens(),
    "ICLTransformerFrozenQK": SummedTokens(),
    "ICLTransformerNoPos": SummedTokens(),
    "ICLTransformerNoisyLabels": SummedTokens(),
    "ICLTransformerShuffledContext": SummedTokens(),
    "ICLTransformerShuffledLabels": SummedTokens(),
    "ICLTransformerNoLabels": PointTokens(),
    "ICLTransformerInterleavedEmbeddings": InterleavedTokens(),
}
_SUPPORTED = {"activation": "gelu exact", "norm": "post", "layer_norm_eps": 1e-5}
_SIZES = ("d_in", "d_model", "n_layers", "n_heads")
_NAMES = (*_SIZES, *_SUPPORTED, "dim_feedforward", "n_ctx", "max_len")


def load_model(
    parameters: Mapping[str, ArrayLike], config: Mapping[str, Any] | str
) -> Encoder:
    """The model with these weights, for one example.

    `model(context_x, context_y, query_x)` is the logit of label 1. The context may be
    shorter than the published one.

    **Arguments:**

    - `parameters`: The `state_dict`: arrays by name.
    - `config`: `model_class` and `model_kwargs` as in the reference files, or their
        JSON text. The variants that shuffle the context or make labels noisy give the
        plain model: give it a changed context.

    **Raises:** `ValueError` for another class or architecture, a misspelt setting, one
    that contradicts another or the arrays, and for arrays that are missing, left over,
    of another shape, no floats or not finite.
    """
    kind, settings = _settings(read_config("config", config))
    arrays = {name: np.asarray(x) for name, x in parameters.items()}
    table = arrays.get("pos_embed", arrays.get("pos_emb"))
    positions = NoPositions()
    found = {}
    if kind == "ICLTransformerNoPos":
        if arrays.pop("pos_emb", np.zeros(1)).any():
            raise ValueError(f"pos_emb must be 0 in {kind}, got other numbers")
    else:
        if table is None:
            raise ValueError(f"parameters of {kind} lack 'pos_emb' or 'pos_embed'")
        if table.ndim not in (2, 3) or table.shape[:-2] not in ((), (1,)):
            wanted = "positions must have shape [1, token, d_model]"
            raise ValueError(f"{wanted}, got {[*table.shape]}")
        rows = table.shape[-2]
        name = "pos_embed" if "pos_embed" in arrays else "pos_emb"
        arrays[name] = table.reshape(table.shape[-2:])
        positions = Learned(rows)
        found = {"max_len": rows} if name == "pos_embed" else {"n_ctx": rows - 1}
    hidden = arrays.get("transformer.layers.0.linear1.weight")
    d_model = settings["d_model"]
    # Without this array there is an error below, which names it.
    units = 4 * d_model if hidden is None or not hidden.ndim else len(hidden)
    for name, there in {**found, "dim_feedforward": units}.items():
        if (said := settings.get(name, there)) != there:
            raise ValueError(
                f"config: {name} is {said!r}, but parameters are of {there}"
            )
    wanted = EncoderConfig(
        num_layers=settings["n_layers"],
        d_model=d_model,
        num_heads=settings["n_heads"],
        mlp_ratio=units / d_model,
        tokens=_TOKENS[kind],
        positions=positions,
    )
    model = empty(wanted, _interface(settings))
    return with_arrays(model, arrays, _stored(model))


def _settings(config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The class, and its arguments together with all other settings."""
    for name in ("model_class", "model_kwargs"):
        if name not in config:
            raise ValueError(f"config lacks {name!r}")
    kind, sizes = config["model_class"], config["model_kwargs"]
    check_known("config: no model_class", [kind], _TOKENS)
    if not isinstance(sizes, Mapping):
        got = type(sizes).__name__
        raise ValueError(f"config: model_kwargs must be a mapping, got a {got}")
    settings = {**config, **sizes}
    check_misspelt("config", settings, ("model_class", "model_kwargs", *_NAMES))
    check_sizes("config: model_kwargs", sizes, _SIZES)
    for name, said in config.items():
        if said != (other := settings[name]):
            raise ValueError(f"config: {name} is {said!r}, in model_kwargs {other!r}")
    for name, wanted in _SUPPORTED.items():
        if (got := settings.get(name, wanted)) != wanted:
            raise ValueError(f"{name} must be {wanted!r}, got {got!r}")
    return kind, settings


def _interface(sizes: Mapping[str, Any]) -> Interface:
    # The model works for any number of pairs; one fits every table of positions.
    return Interface(
        (
            Input("context_x", (1, sizes["d_in"]), "float32"),
            Input("context_y", (1,), "int32", count=2),
            Input("query_x", (sizes["d_in"],), "float32"),
        ),
        num_outputs=1,
    )


def _stored(model: Encoder) -> dict[str, Stored]:
    """What each array of the state dict is."""
    embedding = model.embedding
    if isinstance(embedding, SummedEmbedding):
        found = layer("x_proj", "embedding.x") | layer("query_proj", "embedding.query")
        if embedding.y is not None:
            found |= layer("y_proj", "embedding.y")
        positions = "pos_emb"
    else:
        found = layer("x_embed", "embedding.x")
        found["y_embed.weight"] = Stored(("embedding.y.weight",))
        positions = "pos_embed"
    if hasattr(model.positions, "table"):
        found[positions] = Stored(("positions.table",))
    found |= layer("head", "head")
    for i in range(len(model.blocks)):
        theirs, ours = f"transformer.layers.{i}", f"blocks.{i}"
        for part in ("weight", "bias"):
            names = (f"{ours}.attn.{name}.{part}" for name in ("query", "key", "value"))
            found[f"{theirs}.self_attn.in_proj_{part}"] = Stored(tuple(names))
        found |= layer(f"{theirs}.self_attn.out_proj", f"{ours}.attn.output")
        found |= layer(f"{theirs}.linear1", f"{ours}.mlp.expand")
        found |= layer(f"{theirs}.linear2", f"{ours}.mlp.contract")
        found |= layer(f"{theirs}.norm1", f"{ours}.attn_norm")
        found |= layer(f"{theirs}.norm2", f"{ours}.mlp_norm")
    return found
