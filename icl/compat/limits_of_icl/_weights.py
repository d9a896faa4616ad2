"""Arrays by their names in PyTorch as a GPT-2 of points."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxtyping import ArrayLike

from ...checks import positive
from ...models import (
    Causal,
    ElementwiseRebasedAttention,
    RelaAttention,
    SoftmaxAttention,
    UnstabilisedFavorAttention,
    Window,
)
from ...models.gpt2 import ExactGelu, GPT2Config, GPT2Points, TanhGelu
from ...protocols import Input, Interface
from .._config import check_known, check_sizes, read_config
from .._stored import (
    APART,
    body,
    empty,
    layer,
    Stored,
    TOGETHER,
    with_arrays,
    without_masks,
)


_SIZES = ("n_dims", "n_positions", "n_embd", "n_layer", "n_head")
_PREFIXES = {"gpt2": "_backbone.", "nanogpt": "_backbone.transformer."}
_NAMES = ("family", *_SIZES, "attention_type", "attention_kwargs")
# By kind: the keywords that it reads.
_KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "softmax_causal": (),
    "local_global": ("local_window_size", "global_attn_indices"),
    "mqa": (),
    "rela": (),
    "favor": ("rf_dim",),
    "rebased": (),
}

# By kind: its own arrays in each block's `attn`, by their paths in ours.
_OWN = {
    "rela": {"rms_gain": "gain", "gate_w": "gate"},
    "favor": {"omega": "directions.value"},
    "rebased": {"gamma": "gain", "beta": "offset"},
}


def load_model(
    parameters: Mapping[str, ArrayLike], constructor: Mapping[str, Any] | str
) -> GPT2Points:
    """The model with these weights, for one prompt.

    `model(xs, ys)` takes points `[point, dim]` and values `[point]`, and gives the
    prediction at each point, which does not depend on the point's own value.

    **Arguments:**

    - `parameters`: The `state_dict`: arrays by name, as `load_state` gives them. The
        unused table of words is ignored.
    - `constructor`: The arguments of that code's `build_model`, or their JSON text.

    **Raises:** `ValueError` for settings that are missing or not supported, for arrays
    that are missing, left over, of another shape, no floats or not finite, and for a
    mask that is not that of the settings.
    """
    settings = read_config("constructor", constructor)
    kind = _kind(settings, "constructor")
    config = _config(settings, kind)
    inputs = (
        Input("xs", (1, settings["n_dims"]), "float32"),
        Input("ys", (1,), "float32"),
    )
    model = empty(config, Interface(inputs, num_outputs=1))
    prefix = _PREFIXES[settings["family"]]
    arrays = without_masks(parameters, model, prefix)
    arrays.pop(f"{prefix}wte.weight", None)
    return with_arrays(model, arrays, _stored(model, kind, prefix))


def model_config(
    constructor: Mapping[str, Any], name: str = "constructor"
) -> GPT2Config:
    """The config of the models that `build_model` makes with these arguments.

    As in that code, negative global tokens are ignored, and all of them if there is no
    window.

    **Arguments:** `name`: What error messages call the arguments.

    **Raises:** `ValueError` for settings that are missing or not supported.
    """
    return _config(constructor, _kind(constructor, name))


def _kind(settings: Mapping[str, Any], what: str) -> str:
    """The kind of attention; checks all settings."""
    check_known(f"{what}: no argument", settings, _NAMES)
    check_sizes(what, settings, _SIZES)
    family = settings.get("family")
    check_known(f"{what}: no family", [family], _PREFIXES)
    if settings["n_embd"] % settings["n_head"]:
        wanted = f"{what}: n_head must divide n_embd={settings['n_embd']}"
        raise ValueError(f"{wanted}, got {settings['n_head']}")
    kind = settings.get("attention_type", "softmax_causal")
    if family == "gpt2":
        if kind not in ("gpt2", "softmax_causal"):
            wanted = f"{what}: attention_type must be softmax_causal"
            raise ValueError(f"{wanted} if family is gpt2, got {kind!r}")
        kind = "softmax_causal"
    check_known(f"{what}: no attention_type", [kind], _KEYWORDS)
    _check_keywords(what, kind, settings.get("attention_kwargs"))
    return "gpt2" if family == "gpt2" else kind


def _check_keywords(what: str, kind: str, given: Any) -> None:
    if not isinstance(given, Mapping | None):
        got = type(given).__name__
        raise ValueError(f"{what}: attention_kwargs must have keys, got a {got}")
    given = given or {}
    check_known(f"{what}: {kind} has no attention_kwargs", given, _KEYWORDS[kind])
    for name in ("local_window_size", "rf_dim"):
        if given.get(name) is not None:
            positive(f"{what}: {name}", given[name])
    positions = given.get("global_attn_indices")
    if positions is not None and not (
        isinstance(positions, list | tuple)
        and all(isinstance(x, int) for x in positions)
    ):
        wanted = f"{what}: global_attn_indices must be a list of whole numbers"
        raise ValueError(f"{wanted}, got {positions!r}")


def _config(settings: Mapping[str, Any], kind: str) -> GPT2Config:
    common = GPT2Config(
        num_layers=settings["n_layer"],
        d_model=settings["n_embd"],
        num_heads=settings["n_head"],
        max_length=2 * settings["n_positions"],
        activation=TanhGelu() if kind == "gpt2" else ExactGelu(),
    )
    given = settings.get("attention_kwargs") or {}
    fields = {
        "local_global": lambda: {"mask": _mask(given)},
        "mqa": lambda: {"num_kv_heads": 1},
        "rela": lambda: {"attention": RelaAttention()},
        "favor": lambda: {"attention": UnstabilisedFavorAttention(given.get("rf_dim"))},
        "rebased": lambda: {"attention": ElementwiseRebasedAttention()},
    }
    own = fields[kind]() if kind in fields else {"attention": SoftmaxAttention()}
    return dataclasses.replace(common, **own)


def _mask(given: Mapping[str, Any]) -> Causal | Window:
    size = given.get("local_window_size")
    if size is None:  # Then global tokens change nothing.
        return Causal()
    # Global positions outside of a sequence do nothing in that code.
    positions = given.get("global_attn_indices") or ()
    return Window(size, tuple(x for x in positions if x >= 0))


def _stored(model: GPT2Points, kind: str, prefix: str) -> dict[str, Stored]:
    projections = APART if kind == "mqa" else TOGETHER
    found = body(model, transposed=kind == "gpt2", projections=projections)
    for i in range(len(model.blocks)):
        for theirs, ours in _OWN.get(kind, {}).items():
            path = f"blocks.{i}.attn.kind.{ours}"
            found[f"h.{i}.attn.{theirs}"] = Stored((path,), flat=kind == "rela")
    ends = layer("_read_in", "read_in") | layer("_read_out", "unembed")
    return ends | {f"{prefix}{name}": how for name, how in found.items()}
