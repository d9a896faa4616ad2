"""The `config.json` of a Hugging Face GPT-2 as our config, and back."""

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx

from opto.hints import did_you_mean

from ...checks import check_not_negative, instance, positive
from ...models import Causal, SoftmaxAttention, TransformerBlock
from ...models.gpt2 import ExactGelu, GPT2Config, GPT2Tokens, Relu, TanhGelu
from ...protocols import Input, Interface
from .._config import check_misspelt


ACTIVATIONS = {"gelu_new": TanhGelu(), "gelu": ExactGelu(), "relu": Relu()}

# What a `config.json` means where it lacks a setting.
_DEFAULTS: dict[str, Any] = {
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_inner": None,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "tie_word_embeddings": True,
}
# Other names that Hugging Face has for some settings.
_OTHER_NAMES = {
    "hidden_size": "n_embd",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
    "max_position_embeddings": "n_positions",
}
_SIZES = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")
_SWITCHES = (
    "scale_attn_weights",
    "scale_attn_by_inverse_layer_idx",
    "tie_word_embeddings",
)
# Settings of another architecture, and the value that means "not used".
_UNSUPPORTED = {
    "model_type": "gpt2",
    "add_cross_attention": False,
    "pruned_heads": {},
    "quantization_config": None,
}


def read_settings(given: Mapping[str, Any]) -> tuple[GPT2Config, Interface]:
    """The config of the model, and what its inputs are.

    **Raises:** `ValueError` for a setting that is wrong or not supported.
    """
    for name, unused in _UNSUPPORTED.items():
        if (got := given.get(name, unused)) != unused:
            raise ValueError(f"{name} must be {unused!r} or absent, got {got!r}")
    given = _renamed(given)
    check_misspelt("config.json", given, (*_DEFAULTS, *_OTHER_NAMES))
    of = {name: given.get(name, default) for name, default in _DEFAULTS.items()}
    for name in _SIZES:
        positive(name, of[name])
    if of["n_inner"] is not None:
        positive("n_inner", of["n_inner"])
    if of["n_embd"] % of["n_head"]:
        wanted = f"n_head must divide n_embd={of['n_embd']}"
        raise ValueError(f"{wanted}, got {of['n_head']}")
    for name in _SWITCHES:
        instance(name, of[name], bool)
    name, epsilon = of["activation_function"], of["layer_norm_epsilon"]
    if not isinstance(name, str) or name not in ACTIVATIONS:
        hint = did_you_mean(str(name), ACTIVATIONS)
        known = ", ".join(ACTIVATIONS)
        raise ValueError(f"activation_function must be {known}; got {name!r}{hint}")
    check_not_negative("layer_norm_epsilon", epsilon)
    _check_repeated(given, of)
    config = GPT2Config(
        num_layers=of["n_layer"],
        d_model=of["n_embd"],
        num_heads=of["n_head"],
        d_mlp=of["n_inner"],
        max_length=of["n_positions"],
        scale=_scales(
            of["n_layer"],
            of["n_embd"] // of["n_head"],
            by_head=of["scale_attn_weights"],
            by_layer=of["scale_attn_by_inverse_layer_idx"],
        ),
        activation=ACTIVATIONS[name],
        layer_norm_epsilon=float(epsilon),
        tied=of["tie_word_embeddings"],
    )
    ids = Input("ids", (1,), "int32", of["vocab_size"])
    return config, Interface((ids,), of["vocab_size"])


def _renamed(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings by their own names."""
    found = {name: value for name, value in given.items() if name not in _OTHER_NAMES}
    for other, name in _OTHER_NAMES.items():
        if other in given and found.setdefault(name, given[other]) != given[other]:
            wanted = f"{other} must be {name}={found[name]!r}"
            raise ValueError(f"{wanted}, got {given[other]!r}")
    return found


def _check_repeated(given: Mapping[str, Any], of: Mapping[str, Any]) -> None:
    """Refuses what Hugging Face does not read if it contradicts what it reads."""
    for name, other, wanted in (
        ("hidden_act", "activation_function", of["activation_function"]),
        ("intermediate_size", "n_inner", of["n_inner"] or 4 * of["n_embd"]),
        ("num_key_value_heads", "n_head", of["n_head"]),
        ("head_dim", "n_head", of["n_embd"] // of["n_head"]),
    ):
        if (got := given.get(name, wanted)) != wanted:
            raise ValueError(f"{name} must be {wanted!r} by {other}, got {got!r}")
    # Older versions write 1024 for any smaller model.
    positive("n_ctx", longest := given.get("n_ctx", of["n_positions"]))
    if longest < of["n_positions"]:
        wanted = f"n_ctx must be at least n_positions={of['n_positions']}"
        raise ValueError(f"{wanted}, got {longest}")
    if (names := given.get("architectures")) and "GPT2" not in str(names):
        raise ValueError(f"architectures must be of GPT2 or absent, got {names!r}")


def write_settings(model: GPT2Tokens) -> dict[str, Any]:
    """The `config.json` of a model, as a mapping.

    **Raises:** `ValueError` for a model that a GPT-2 of Hugging Face cannot be.
    """
    vocabulary, d_model = model.embedding.weight.shape
    heads, d_mlp, activation, epsilon = _shape(model)
    by_head, by_layer = _scaled(model, d_model // heads)
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": vocabulary,
        "n_positions": len(model.positions.table),
        "n_embd": d_model,
        "n_layer": len(model.blocks),
        "n_head": heads,
        "n_inner": d_mlp,
        "activation_function": activation,
        "layer_norm_epsilon": epsilon,
        "scale_attn_weights": by_head,
        "scale_attn_by_inverse_layer_idx": by_layer,
        "tie_word_embeddings": model.untied is None,
        "dtype": model.embedding.weight.dtype.name,
    }


def _scales(
    layers: int, d_head: int, *, by_head: bool, by_layer: bool
) -> tuple[float, ...]:
    factor = d_head**-0.5 if by_head else 1.0
    return tuple(factor / (i + 1 if by_layer else 1) for i in range(layers))


def _scaled(model: GPT2Tokens, d_head: int) -> tuple[bool, bool]:
    """Whether scores are divided by the root of `d_head`, and by the layer's number."""
    found = [getattr(block.attn.kind, "scale", math.nan) for block in model.blocks]
    for by_head in (True, False):
        for by_layer in (False, True):
            scales = _scales(len(found), d_head, by_head=by_head, by_layer=by_layer)
            if all(map(math.isclose, found, scales)):
                return by_head, by_layer
    got = ", ".join(map(str, found))
    raise ValueError(f"the scales of scores must be those of a GPT-2, got {got}")


def _shape(model: GPT2Tokens) -> tuple[int, int, str, float]:
    """Heads, hidden units, activation and epsilon, which are one for all layers."""
    found = {_of_block(block) for block in model.blocks}
    if len(found) != 1:
        got = "; ".join(map(str, sorted(found)))
        wanted = "heads, hidden units, activation and epsilon"
        raise ValueError(f"all layers must have the same {wanted}, got {got}")
    heads, units, activation, epsilon = found.pop()
    if epsilon != model.final_norm.eps:
        got = f"{epsilon} and {model.final_norm.eps}"
        raise ValueError(f"all norms must have one epsilon, got {got}")
    return heads, units, activation, epsilon


def _of_block(block: TransformerBlock) -> tuple[int, int, str, float]:
    attn, mlp = block.attn, block.mlp
    norms = block.attn_norm, block.mlp_norm
    if attn.kind.name != SoftmaxAttention.__name__:
        raise ValueError(f"attention must be SoftmaxAttention, got {attn.kind.name}")
    if attn.mask != Causal():
        raise ValueError(f"mask must be Causal(), got {attn.mask}")
    if attn.kv_axis != "head":
        wanted = f"as many key and value heads as heads ({attn.num_heads})"
        raise ValueError(f"the model must have {wanted}, got {attn.num_kv_heads}")
    epsilons = {x.eps for x in norms if isinstance(x, eqx.nn.LayerNorm)}
    if mlp is None or len(epsilons) != 1:
        raise ValueError("a block must have an MLP, and norms with one epsilon")
    names = [name for name, known in ACTIVATIONS.items() if known == mlp.activation]
    if not names:
        known = ", ".join(type(x).__name__ for x in ACTIVATIONS.values())
        raise ValueError(f"the activation must be {known}, got {mlp.activation}")
    units = mlp.expand.weight.shape[0]
    return attn.num_heads, units, names[0], epsilons.pop()
