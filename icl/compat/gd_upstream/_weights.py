"""Arrays by their names in Haiku as a `TokenRegression`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike

from ...checks import check_not_negative, check_scale, positive
from ...models import (
    Attention,
    ContextOnly,
    Everything,
    MLP,
    NoPositions,
    ProductAttention,
    SoftmaxAttention,
)
from ...models.attention.mixed import MixedAttention
from ...models.attention.sum_normalised import SumNormalisedAttention
from ...models.stack import ResidualUpdate, StackBlock
from ...models.token_regression import TokenRegression
from ...protocols import AttentionConfig
from .._config import check_misspelt, check_switch, floats_of, read_config


_SIZES = ("num_layers", "num_heads", "key_size", "emb_size", "input_size")
_SWITCHES = (
    *("y_update", "use_softmax", "first_layer_sm", "use_non_lin_mix", "sum_norm"),
    *("include_query", "layer_norm", "att_only_trans", "in_proj"),
    *("pos_enc", "concat_pos_enc"),
)
# Of data and of gradient descent, or to be seen in the arrays.
_UNUSED = (
    *("deq", "gd_deq", "gd_dampening", "dataset_size", "input_range", "use_bias"),
    *("widening_factor", "classic_token_const"),
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
    - `config`: The settings as in the reference files, or their JSON text.

    **Raises:** `ValueError` for settings that are missing, misspelt or not supported,
    and for arrays that are missing, left over, of another shape, no floats or not
    finite.
    """
    settings = read_config("config", config)
    _check(settings)
    arrays = _Arrays(parameters, settings)
    layers = 1 if arrays.tied else settings["num_layers"]
    blocks = tuple(_block(arrays, settings, layer) for layer in range(layers))
    project = None
    if settings.get("in_proj"):
        project = arrays.linear(f"{arrays.root}/emb", (None, settings["emb_size"]))
    model = TokenRegression(
        project,
        blocks,
        NoPositions().build(settings["emb_size"], key=jax.random.key(0)),
        settings["num_layers"],
        settings.get("pos_enc_size", 0) if settings.get("pos_enc") else 0,
        _outputs(settings),
    )
    if arrays.left:
        raise ValueError(f"parameters left over: {', '.join(sorted(arrays.left))}")
    return model


def _check(settings: Mapping[str, Any]) -> None:
    for name in _SIZES:
        if name not in settings:
            raise ValueError(f"config lacks {name!r}")
        positive(f"config: {name}", settings[name])
    known = (*_SIZES, *_SWITCHES, *_UNUSED, "dampening", "clip", "pos_enc_size")
    check_misspelt("config", settings, known)
    for name in _SWITCHES:
        check_switch(f"config: {name}", settings.get(name, False))
    check_scale("config: dampening", settings.get("dampening", 1.0))
    check_not_negative("config: clip", settings.get("clip") or 0.0)
    unsupported = {
        "pos_enc without concat_pos_enc": settings.get("pos_enc")
        and not settings.get("concat_pos_enc"),
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


def _has_mlp(settings: Mapping[str, Any]) -> bool:
    return not settings.get("att_only_trans", True)


def _outputs(settings: Mapping[str, Any]) -> int:
    """How many values a token has; with positions, the last channel is read."""
    if settings.get("pos_enc"):
        return 1
    return max(1, settings["emb_size"] - settings["input_size"])


class _Arrays:
    """The arrays by name, and which of them were not read yet."""

    def __init__(self, parameters: Mapping[str, ArrayLike], settings: Mapping):
        self._arrays = {
            name: jnp.asarray(x) for name, x in floats_of(parameters).items()
        }
        self.left = {*self._arrays}
        roots = {name.split("/")[0] for name in self._arrays}
        if len(roots) != 1:
            found = ", ".join(sorted(roots)) or "none"
            raise ValueError(f"parameters must be of one Haiku module, got {found}")
        (self.root,) = roots
        prefix = f"{self.root}/multi_head_attention/"
        self.tied = any(name.startswith(prefix) for name in self._arrays)
        if not self.tied:
            self._check_layers(settings["num_layers"])

    def attention(self, layer: int) -> str:
        """The module of a layer's attention."""
        if self.tied:
            return f"{self.root}/multi_head_attention"
        return f"{self.root}/~trans_block/layer_{layer}"

    def norm(self, layer: int) -> str:
        """The module of the norm before a layer's attention."""
        if self.tied:
            return f"{self.root}/l_norm/layer_norm"
        return f"{self.root}/~trans_block/norm_{layer}"

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def take(self, name: str, shape: tuple[int | None, ...]) -> Array:
        """The array of this name and shape (`None`: any size); marks it as read."""
        if name not in self._arrays:
            raise ValueError(f"parameters lack {name!r}")
        array = self._arrays[name]
        fits = len(shape) == array.ndim and all(
            size in (None, there)
            for size, there in zip(shape, array.shape, strict=True)
        )
        if not fits:
            sizes = ", ".join("any" if x is None else str(x) for x in shape)
            wanted = f"{name} must have the shape [{sizes}]"
            raise ValueError(f"{wanted}, got {[*array.shape]}")
        self.left.discard(name)
        return array

    def linear(self, module: str, shape: tuple[int | None, int | None]):
        """A Haiku linear layer; `shape` is `[in, out]`."""
        weight = self.take(f"{module}/w", shape).T
        bias = None
        if f"{module}/b" in self:
            bias = self.take(f"{module}/b", (len(weight),))
        out, into = weight.shape
        empty = eqx.filter_eval_shape(
            eqx.nn.Linear, into, out, use_bias=bias is not None, key=jax.random.key(0)
        )
        new = weight if bias is None else (weight, bias)
        where = lambda m: m.weight if bias is None else (m.weight, m.bias)
        return eqx.tree_at(where, empty, new)

    def _check_layers(self, wanted: int) -> None:
        found = set(self._layers())
        if found != {*range(wanted)}:
            text = ", ".join(map(str, sorted(found))) or "none"
            raise ValueError(f"num_layers is {wanted}, but parameters have: {text}")

    def _layers(self) -> Iterator[int]:
        for name in self._arrays:
            if match := re.search(r"/~trans_block/layer_(\d+)/", name):
                yield int(match[1])


def _block(arrays: _Arrays, settings: Mapping[str, Any], layer: int) -> StackBlock:
    update = ResidualUpdate(
        settings.get("dampening", 1.0),
        "last" if settings.get("y_update") else "all",
        settings.get("clip") or None,
    )
    return StackBlock(
        _attention(arrays, settings, layer),
        _norm(arrays, settings, layer),
        _mlp(arrays, settings),
        update,
    )


def _attention(arrays: _Arrays, settings: Mapping[str, Any], layer: int) -> Attention:
    d_model, heads = settings["emb_size"], settings["num_heads"]
    d_head, module = settings["key_size"], arrays.attention(layer)
    attn = Attention(
        d_model,
        heads,
        kind=_kind(arrays, settings, layer),
        num_kv_heads=None,
        mask=Everything() if settings.get("include_query") else ContextOnly(),
        qkv_bias=False,
        scale=None,
        init_scale=1.0,
        key=jax.random.key(0),
        d_head=d_head,
    )
    width = heads * d_head
    into, out = (d_model, width), (width, d_model)
    names = {"query": into, "key": into, "value": into, "linear": out}
    new = [arrays.linear(f"{module}/{name}", shape) for name, shape in names.items()]
    where = lambda m: [m.query, m.key, m.value, m.output]
    attn = eqx.tree_at(where, attn, new)
    if (mix := f"{module}/non_lin_mix/w") in arrays:
        share = arrays.take(mix, (1, 1))[0, 0]
        attn = eqx.tree_at(lambda m: m.kind.mix, attn, share)
    return attn


def _kind(arrays: _Arrays, settings: Mapping[str, Any], layer: int) -> AttentionConfig:
    if f"{arrays.attention(layer)}/non_lin_mix/w" in arrays:
        return MixedAttention()
    if settings.get("use_softmax") or (settings.get("first_layer_sm") and layer == 0):
        if arrays.tied and not settings.get("use_softmax"):
            raise ValueError("first_layer_sm with tied layers is not supported")
        return SoftmaxAttention()
    return SumNormalisedAttention() if settings.get("sum_norm") else ProductAttention()


def _norm(arrays: _Arrays, settings: Mapping[str, Any], layer: int) -> eqx.Module:
    # Of untied layers, the first has no norm.
    if not settings.get("layer_norm") or (layer == 0 and not arrays.tied):
        return eqx.nn.Identity()
    d_model, module = settings["emb_size"], arrays.norm(layer)
    new = [arrays.take(f"{module}/{part}", (d_model,)) for part in ("scale", "offset")]
    where = lambda m: [m.weight, m.bias]
    return eqx.tree_at(where, eqx.nn.LayerNorm(d_model), new)


def _mlp(arrays: _Arrays, settings: Mapping[str, Any]) -> MLP | None:
    if not _has_mlp(settings):
        return None
    if not arrays.tied:
        raise ValueError("an MLP in untied layers is not supported")
    d_model = settings["emb_size"]
    expand = arrays.linear(f"{arrays.root}/mlp/linear", (d_model, None))
    back = (len(expand.weight), d_model)
    contract = arrays.linear(f"{arrays.root}/mlp/linear_1", back)
    empty = MLP(d_model, 1, init_scale=1.0, key=jax.random.key(0))
    return eqx.tree_at(lambda m: [m.expand, m.contract], empty, [expand, contract])
