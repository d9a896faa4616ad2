"""Weights of the public code of von Oswald et al. (2023, arXiv 2212.07677).

They are arrays by their names in Haiku.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import ArrayLike, PRNGKeyArray

from ..checks import check_not_negative, check_scale, instance, positive
from ..models import (
    Attention,
    ContextOnly,
    Everything,
    MLP,
    NoPositions,
    ProductAttention,
    SoftmaxAttention,
)
from ..models.attention.mixed import MixedAttention
from ..models.attention.sum_normalised import SumNormalisedAttention
from ..models.stack import ResidualUpdate, StackBlock
from ..models.token_regression import TokenRegression
from ..protocols import AttentionConfig
from ._config import check_misspelt, check_sizes, read_config
from ._stored import Stored, with_arrays


_SIZES = ("num_layers", "num_heads", "key_size", "emb_size", "input_size")
_SWITCHES = (
    *("y_update", "use_softmax", "first_layer_sm", "use_non_lin_mix", "sum_norm"),
    *("include_query", "layer_norm", "att_only_trans", "in_proj", "use_bias"),
    *("pos_enc", "concat_pos_enc", "zero_pos_enc"),
    *("classic_token_const", "deq", "gd_deq"),
)
_OTHERS = (
    *("dampening", "gd_dampening", "clip", "pos_enc_size", "widening_factor"),
    *("dataset_size", "input_range"),  # Of data.
)
# That code's gradient descent shares a config with the transformer, but not these.
_DESCENT = "Transformer_gd"
_OF_DESCENT = {"num_heads": 1, "att_only_trans": True} | dict.fromkeys(
    (
        *("use_softmax", "first_layer_sm", "use_non_lin_mix", "sum_norm", "use_bias"),
        *("include_query", "layer_norm", "pos_enc"),
    ),
    False,
)


def load_model(
    parameters: Mapping[str, ArrayLike], config: Mapping[str, Any] | str
) -> TokenRegression:
    """The model with these weights, for one example.

    `model(tokens)` takes `[token, channel]`, the query last, and gives the prediction;
    `[output]` if tokens have several values. Positions are appended by the model.

    **Arguments:**

    - `parameters`: Arrays by Haiku module and name, as
        `transformer/multi_head_attention/query/w`.
    - `config`: The settings as in the reference files, or their JSON text. For arrays
        of `Transformer_gd`, those of gradient descent are read.

    **Raises:** `ValueError` for settings that are missing, misspelt or not supported,
    that contradict each other or the arrays, and for arrays that are missing, left
    over, of another shape, no floats or not finite.
    """
    arrays = {name: np.asarray(x) for name, x in parameters.items()}
    roots = {name.split("/")[0] for name in arrays}
    if len(roots) != 1:
        found = ", ".join(sorted(roots)) or "none"
        raise ValueError(f"parameters must be of one Haiku module, got {found}")
    (root,) = roots
    tied = any(name.startswith(f"{root}/multi_head_attention/") for name in arrays)
    settings = _settings(read_config("config", config), root, tied)
    channels = settings["emb_size"] - settings["pos_enc_size"]
    if settings.get("in_proj"):
        # The size of a token before its projection is only in the array.
        name = f"{root}/emb/w"
        if name not in arrays or arrays[name].ndim != 2:
            raise ValueError(f"parameters lack the matrix {name}")
        channels = len(arrays[name])
    sizes = channels, _outputs(settings, channels)
    key = jax.random.key(0)
    model = eqx.filter_eval_shape(_model, settings, sizes, tied, key=key)
    return with_arrays(model, arrays, _stored(model, root, tied))


def _settings(given: Mapping[str, Any], root: str, tied: bool) -> dict[str, Any]:
    """The settings of the model whose arrays have this root."""
    settings, deq = dict(given), "deq"
    if root == _DESCENT:
        settings |= {**_OF_DESCENT, "dampening": given.get("gd_dampening", 1.0)}
        deq = "gd_deq"
    _check(settings, tied)
    if not settings.get("pos_enc"):
        settings["pos_enc_size"] = 0
    # One layer is the same either way, and constructions always have the tied name.
    said = settings.get(deq, tied)
    if said != tied and (said or settings["num_layers"] > 1):
        kind = "tied" if tied else "untied"
        raise ValueError(f"config: {deq} is {said}, but parameters have {kind} layers")
    return settings


def _check(settings: Mapping[str, Any], tied: bool) -> None:
    check_sizes("config", settings, _SIZES)
    check_misspelt("config", settings, (*_SIZES, *_SWITCHES, *_OTHERS))
    for name in _SWITCHES:
        instance(f"config: {name}", settings.get(name, False), bool)
    check_scale("config: dampening", settings.get("dampening", 1.0))
    check_not_negative("config: clip", settings.get("clip") or 0.0)
    unsupported = {
        "pos_enc without concat_pos_enc": settings.get("pos_enc")
        and not settings.get("concat_pos_enc"),
        "pos_enc with zero_pos_enc": settings.get("pos_enc")
        and settings.get("zero_pos_enc"),
        "an MLP in untied layers": _has_mlp(settings) and not tied,
        "first_layer_sm with tied layers": settings.get("first_layer_sm")
        and tied
        and not settings.get("use_softmax"),
        "layer_norm with an MLP": settings.get("layer_norm") and _has_mlp(settings),
        "sum_norm with a softmax": settings.get("sum_norm")
        and any(map(settings.get, ("use_softmax", "first_layer_sm"))),
        "sum_norm with use_non_lin_mix": settings.get("sum_norm")
        and settings.get("use_non_lin_mix"),
    }
    for name, there in unsupported.items():
        if there:
            raise ValueError(f"{name} is not supported")
    if settings.get("pos_enc"):
        positive("config: pos_enc_size", settings.get("pos_enc_size"))
    positive("config: widening_factor", settings.get("widening_factor", 4))


def _has_mlp(settings: Mapping[str, Any]) -> bool:
    return not settings.get("att_only_trans", True)


def _outputs(settings: Mapping[str, Any], channels: int) -> int:
    """How many channels are read: those of `y`, or the last one if there is no `y`."""
    size = settings["input_size"]
    classic = settings.get("classic_token_const", channels == size)
    if channels < size or classic != (channels == size):
        said = f"input_size is {size} and classic_token_const is {classic}"
        raise ValueError(f"config: {said}, but tokens have {channels} channels")
    if classic or settings.get("pos_enc") or settings.get("in_proj"):
        return 1
    return channels - size


def _model(
    settings: Mapping[str, Any],
    sizes: tuple[int, int],
    tied: bool,
    *,
    key: PRNGKeyArray,
) -> TokenRegression:
    """The model of the settings, with random weights that are replaced later.

    **Arguments:** `sizes`: The channels of a token, and how many of them are read.
    """
    channels, outputs = sizes
    layers = range(1 if tied else settings["num_layers"])
    project, positions = None, settings["pos_enc_size"]
    if settings.get("in_proj"):
        project = _linear(settings, channels, settings["emb_size"] - positions, key=key)
    return TokenRegression(
        project,
        tuple(_block(settings, layer, tied, key=key) for layer in layers),
        NoPositions().build(settings["emb_size"], key=key),
        settings["num_layers"],
        positions,
        outputs,
    )


def _linear(
    settings: Mapping[str, Any], into: int, out: int, *, key: PRNGKeyArray
) -> eqx.nn.Linear:
    biased = settings.get("use_bias", False)
    return eqx.nn.Linear(into, out, use_bias=biased, key=key)


def _block(
    settings: Mapping[str, Any], layer: int, tied: bool, *, key: PRNGKeyArray
) -> StackBlock:
    d_model, biased = settings["emb_size"], settings.get("use_bias", False)
    attn = Attention(
        d_model,
        settings["num_heads"],
        kind=_kind(settings, layer),
        num_kv_heads=None,
        mask=Everything() if settings.get("include_query") else ContextOnly(),
        qkv_bias=biased,
        output_bias=biased,
        scale=None,
        init_scale=1.0,
        key=key,
        d_head=settings["key_size"],
    )
    update = ResidualUpdate(
        settings.get("dampening", 1.0),
        "last" if settings.get("y_update") else "all",
        settings.get("clip") or None,
    )
    # Of untied layers, the first has no norm.
    normed = settings.get("layer_norm") and (tied or layer)
    norm = eqx.nn.LayerNorm(d_model) if normed else eqx.nn.Identity()
    return StackBlock(attn, norm, _mlp(settings, key=key), update)


def _kind(settings: Mapping[str, Any], layer: int) -> AttentionConfig:
    if settings.get("use_softmax") or (settings.get("first_layer_sm") and layer == 0):
        return SoftmaxAttention()
    if settings.get("use_non_lin_mix") and layer == 0:
        return MixedAttention()
    return SumNormalisedAttention() if settings.get("sum_norm") else ProductAttention()


def _mlp(settings: Mapping[str, Any], *, key: PRNGKeyArray) -> MLP | None:
    if not _has_mlp(settings):
        return None
    d_model = settings["emb_size"]
    hidden = settings.get("widening_factor", 4) * d_model
    expand = _linear(settings, d_model, hidden, key=key)
    contract = _linear(settings, hidden, d_model, key=key)
    mlp = MLP(d_model, hidden, init_scale=1.0, key=key)
    return eqx.tree_at(lambda m: (m.expand, m.contract), mlp, (expand, contract))


def _stored(model: TokenRegression, root: str, tied: bool) -> dict[str, Stored]:
    """What each array is; matrices are stored as `[in, out]`."""
    found: dict[str, Stored] = {}

    def add(module: str, path: str, layer: eqx.nn.Linear) -> None:
        found[f"{module}/w"] = Stored((f"{path}.weight",), transposed=True)
        if layer.bias is not None:
            found[f"{module}/b"] = Stored((f"{path}.bias",))

    if model.project is not None:
        add(f"{root}/emb", "project", model.project)
    for i, block in enumerate(model.blocks):
        at, attn = f"blocks.{i}", block.attn
        theirs = f"{root}/~trans_block/layer_{i}"
        norm = f"{root}/~trans_block/norm_{i}"
        if tied:
            theirs, norm = f"{root}/multi_head_attention", f"{root}/l_norm/layer_norm"
        for name in ("query", "key", "value"):
            add(f"{theirs}/{name}", f"{at}.attn.{name}", getattr(attn, name))
        add(f"{theirs}/linear", f"{at}.attn.output", attn.output)
        if hasattr(attn.kind, "mix"):
            found[f"{theirs}/non_lin_mix/w"] = Stored((f"{at}.attn.kind.mix",))
        if isinstance(block.attn_norm, eqx.nn.LayerNorm):
            for part, ours in (("scale", "weight"), ("offset", "bias")):
                found[f"{norm}/{part}"] = Stored((f"{at}.attn_norm.{ours}",))
        if block.mlp is not None:
            add(f"{root}/mlp/linear", f"{at}.mlp.expand", block.mlp.expand)
            add(f"{root}/mlp/linear_1", f"{at}.mlp.contract", block.mlp.contract)
    return found
