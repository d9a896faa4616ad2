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
    arrays = _Arrays(parameters)
    settings = _settings(read_config("config", config), arrays)
    arrays.biased = settings.get("use_bias", False)
    layers = 1 if arrays.tied else settings["num_layers"]
    blocks = tuple(_block(arrays, settings, layer) for layer in range(layers))
    positions = settings.get("pos_enc_size", 0) if settings.get("pos_enc") else 0
    project, channels = None, settings["emb_size"] - positions
    if settings.get("in_proj"):
        project = arrays.linear(f"{arrays.root}/emb", (None, channels))
        channels = project.weight.shape[1]
    model = TokenRegression(
        project,
        blocks,
        NoPositions().build(settings["emb_size"], key=jax.random.key(0)),
        settings["num_layers"],
        positions,
        _outputs(settings, channels),
    )
    if arrays.left:
        names = ", ".join(sorted(arrays.left))
        raise ValueError(f"parameters left over: {names}; config does not ask for them")
    return model


def _settings(given: Mapping[str, Any], arrays: "_Arrays") -> dict[str, Any]:
    """The settings of the model that these arrays are of."""
    settings, deq = dict(given), "deq"
    if arrays.root == _DESCENT:
        settings |= {**_OF_DESCENT, "dampening": given.get("gd_dampening", 1.0)}
        deq = "gd_deq"
    _check(settings)
    # One layer is the same either way, and constructions always have the tied name.
    tied, layers = settings.get(deq, arrays.tied), settings["num_layers"]
    if tied != arrays.tied and (tied or layers > 1):
        kind = "tied" if arrays.tied else "untied"
        raise ValueError(f"config: {deq} is {tied}, but parameters have {kind} layers")
    if not arrays.tied:
        arrays.check_layers(layers)
    return settings


def _check(settings: Mapping[str, Any]) -> None:
    for name in _SIZES:
        if name not in settings:
            raise ValueError(f"config lacks {name!r}")
        positive(f"config: {name}", settings[name])
    check_misspelt("config", settings, (*_SIZES, *_SWITCHES, *_OTHERS))
    for name in _SWITCHES:
        check_switch(f"config: {name}", settings.get(name, False))
    check_scale("config: dampening", settings.get("dampening", 1.0))
    check_not_negative("config: clip", settings.get("clip") or 0.0)
    unsupported = {
        "pos_enc without concat_pos_enc": settings.get("pos_enc")
        and not settings.get("concat_pos_enc"),
        "pos_enc with zero_pos_enc": settings.get("pos_enc")
        and settings.get("zero_pos_enc"),
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


class _Arrays:
    """The arrays by name, and which of them were not read yet."""

    def __init__(self, parameters: Mapping[str, ArrayLike]):
        self._arrays = {
            name: jnp.asarray(x) for name, x in floats_of(parameters).items()
        }
        self.left = {*self._arrays}
        self.biased = False
        roots = {name.split("/")[0] for name in self._arrays}
        if len(roots) != 1:
            found = ", ".join(sorted(roots)) or "none"
            raise ValueError(f"parameters must be of one Haiku module, got {found}")
        (self.root,) = roots
        prefix = f"{self.root}/multi_head_attention/"
        self.tied = any(name.startswith(prefix) for name in self._arrays)

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

    def take(self, name: str, shape: tuple[int | None, ...]) -> Array:
        """The array of this name and shape (`None`: any size); marks it as read."""
        if name not in self._arrays:
            raise ValueError(f"parameters lack {name!r}, which config asks for")
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
        new = [self.take(f"{module}/w", shape).T]
        out, into = new[0].shape
        if self.biased:
            new.append(self.take(f"{module}/b", (out,)))
        empty = eqx.filter_eval_shape(
            eqx.nn.Linear, into, out, use_bias=self.biased, key=jax.random.key(0)
        )
        return eqx.tree_at(lambda m: [m.weight, m.bias][: len(new)], empty, new)

    def check_layers(self, wanted: int) -> None:
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
    kind = _kind(arrays, settings, layer)
    attn = Attention(
        d_model,
        heads,
        kind=kind,
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
    if isinstance(kind, MixedAttention):
        share = arrays.take(f"{module}/non_lin_mix/w", (1, 1))[0, 0]
        attn = eqx.tree_at(lambda m: m.kind.mix, attn, share)
    return attn


def _kind(arrays: _Arrays, settings: Mapping[str, Any], layer: int) -> AttentionConfig:
    if settings.get("use_softmax") or (settings.get("first_layer_sm") and layer == 0):
        if arrays.tied and not settings.get("use_softmax"):
            raise ValueError("first_layer_sm with tied layers is not supported")
        return SoftmaxAttention()
    if settings.get("use_non_lin_mix") and layer == 0:
        return MixedAttention()
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
    hidden = settings.get("widening_factor", 4) * d_model
    expand = arrays.linear(f"{arrays.root}/mlp/linear", (d_model, hidden))
    contract = arrays.linear(f"{arrays.root}/mlp/linear_1", (hidden, d_model))
    empty = MLP(d_model, 1, init_scale=1.0, key=jax.random.key(0))
    return eqx.tree_at(lambda m: [m.expand, m.contract], empty, [expand, contract])
