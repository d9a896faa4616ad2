"""The `config.json` of a family of language models as our config."""

from collections.abc import Mapping
from typing import Any

from opto.hints import did_you_mean

from ...checks import check_number, check_scale, instance, positive
from ...models import Causal, LinearScaling, Llama3Scaling, Rope, Window
from ...models.decoder import (
    DecoderConfig,
    ExactGelu,
    GatedMLPConfig,
    LayerNormConfig,
    PlainMLPConfig,
    Relu,
    RMSNormConfig,
    Silu,
    TanhGelu,
)


ACTIVATIONS = {
    "silu": Silu(),
    "gelu": ExactGelu(),
    "gelu_pytorch_tanh": TanhGelu(),
    "gelu_new": TanhGelu(),
    "relu": Relu(),
}

ARCHITECTURES = {
    "gpt_neox": "GPTNeoXForCausalLM",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma": "GemmaForCausalLM",
}
"""The families, by `model_type`."""

# What a file means where it lacks a setting, if that is not the same in all families.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "gpt_neox": {
        "hidden_act": "gelu",
        "attention_bias": True,
        "partial_rotary_factor": 0.25,
    },
    "llama": {},
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "qwen2": {"num_key_value_heads": 32, "sliding_window": 4096},
    "qwen3": {"num_key_value_heads": 32, "sliding_window": 4096, "head_dim": 128},
    "gemma": {
        "num_key_value_heads": 16,
        "head_dim": 256,
        "hidden_act": "gelu_pytorch_tanh",
        "tie_word_embeddings": True,
    },
}

# They say nothing about the function that a model without dropout computes.
_WITHOUT_EFFECT = {
    *(
        "architectures",
        "auto_map",
        "model_type",
        "transformers_version",
        "_name_or_path",
    ),
    *("torch_dtype", "dtype", "use_cache", "initializer_range", "pretraining_tp"),
    *("attention_dropout", "hidden_dropout", "classifier_dropout", "resid_pdrop"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id"),
    *("decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id"),
    *("gradient_checkpointing", "output_attentions", "output_hidden_states"),
    *("return_dict", "return_dict_in_generate", "output_scores", "torchscript"),
    *("is_decoder", "id2label", "label2id", "num_labels", "problem_type", "prefix"),
    *(
        "task_specific_params",
        "finetuning_task",
        "tokenizer_class",
        "tie_encoder_decoder",
    ),
    *("max_length", "min_length", "do_sample", "num_beams", "num_beam_groups"),
    *("temperature", "top_k", "top_p", "typical_p", "repetition_penalty"),
    *("length_penalty", "diversity_penalty", "no_repeat_ngram_size", "early_stopping"),
    *("encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences"),
    *("chunk_size_feed_forward", "remove_invalid_values", "suppress_tokens"),
    *("begin_suppress_tokens", "exponential_decay_length_penalty", "unsloth_version"),
    *("_attn_implementation", "_attn_implementation_autoset", "attn_implementation"),
}


class _Settings:
    """The settings of a file, with a note of which ones were read."""

    def __init__(self, given: Mapping[str, Any], family: str):
        self.given, self.family = given, family
        self.defaults = _DEFAULTS[family]
        self.read: set[str] = set()

    def __call__(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return self.given.get(name, self.defaults.get(name, default))

    def size(self, name: str, default: int | None = None) -> int:
        found = self(name)
        found = default if found is None else found
        if found is None:
            raise ValueError(f"there must be a setting {name!r}")
        positive(name, found)
        return found

    def switch(self, name: str, default: bool) -> bool:
        found = self(name, default)
        instance(name, found, bool)
        return found

    def check_all_read(self) -> None:
        """Raises `ValueError` for a setting that may change the function."""
        for name, value in self.given.items():
            unused = value is None or value is False or value in ([], {})
            if name not in self.read | _WITHOUT_EFFECT and not unused:
                hint = did_you_mean(name, self.read)
                what = f"the setting {name}={value!r} of {self.family} is not supported"
                raise ValueError(f"{what}{hint or ', and may change what it computes'}")


def config_of(given: Mapping[str, Any]) -> tuple[DecoderConfig, int]:
    """The config of the model, and the number of ids.

    **Raises:** `ValueError` for a setting that is wrong or not supported.
    """
    family = given.get("model_type")
    if family not in ARCHITECTURES:
        known = ", ".join((*ARCHITECTURES, "gpt2"))
        hint = did_you_mean(str(family), ARCHITECTURES) or f"; known: {known}"
        raise ValueError(f"model_type {family!r} is not supported{hint}")
    of = _Settings(given, family)
    d_model, heads = of.size("hidden_size"), of.size("num_attention_heads")
    layers, neox = of.size("num_hidden_layers"), family == "gpt_neox"
    epsilon = of("layer_norm_eps", 1e-5) if neox else of("rms_norm_eps", 1e-6)
    check_scale("the epsilon of norms", epsilon)
    rms = RMSNormConfig(float(epsilon), 1.0 if family == "gemma" else 0.0)
    activation, biases = _activation(of), _biases(of)
    mlp_bias = neox or (family == "llama" and of.switch("mlp_bias", False))
    parallel = neox and of.switch("use_parallel_residual", True)
    config = DecoderConfig(
        num_layers=layers,
        d_model=d_model,
        num_heads=heads,
        num_kv_heads=heads if neox else of.size("num_key_value_heads", heads),
        d_head=of.size("head_dim", d_model // heads),
        d_mlp=of.size("intermediate_size"),
        norm=LayerNormConfig(float(epsilon)) if neox else rms,
        head_norm=rms if family == "qwen3" else None,
        positions=_rope(of),
        mask=_masks(of, layers),
        mlp=(PlainMLPConfig if neox else GatedMLPConfig)(activation, mlp_bias),
        residual="parallel" if parallel else "sequential",
        qkv_bias=biases[0],
        output_bias=biases[1],
        embedding_scale=d_model**0.5 if family == "gemma" else 1.0,
        tied=of.switch("tie_word_embeddings", False),
        max_length=of.size("max_position_embeddings", 2048),
    )
    vocabulary = of.size("vocab_size")
    if of("use_bidirectional_attention"):
        raise ValueError("use_bidirectional_attention must be false or absent")
    of.check_all_read()
    return config, vocabulary


def _activation(of: _Settings) -> Any:
    name = of("hidden_act", "silu")
    if of.family == "gemma":
        newer = of("hidden_activation")
        if newer is None and name == "gelu":
            raise ValueError(
                "hidden_act='gelu' of gemma is the tanh form in old transformers, the "
                "exact one in new; set hidden_activation: gelu_pytorch_tanh or gelu"
            )
        name = newer or name
    if not isinstance(name, str) or name not in ACTIVATIONS:
        hint = did_you_mean(str(name), ACTIVATIONS)
        known = ", ".join(ACTIVATIONS)
        raise ValueError(f"hidden_act must be one of {known}; got {name!r}{hint}")
    return ACTIVATIONS[name]


def _biases(of: _Settings) -> tuple[bool, bool]:
    """Whether queries, keys and values have biases, and whether the output has one."""
    if of.family == "mistral":
        return False, False
    if of.family == "qwen2":
        return True, False
    found = of.switch("attention_bias", False)
    return found, found


def _masks(of: _Settings, layers: int) -> Any:
    """One mask for all layers, or one for each."""
    if of.family == "mistral":
        size = of("sliding_window")
        return Causal() if size is None else Window(of.size("sliding_window"))
    if of.family not in ("qwen2", "qwen3"):
        return Causal()
    sliding, size = of.switch("use_sliding_window", False), of("sliding_window")
    first = of.size("max_window_layers", 28) if sliding else of("max_window_layers")
    kinds = of("layer_types")
    if kinds is None:
        slides = [sliding and size is not None and i >= first for i in range(layers)]
    else:
        known = ("full_attention", "sliding_attention")
        if len(kinds) != layers or not {*kinds} <= {*known}:
            wanted = f"{layers} of {', '.join(known)}"
            raise ValueError(f"layer_types must be {wanted}, got {kinds}")
        slides = [kind == "sliding_attention" for kind in kinds]
        if any(slides) and not (sliding and size):
            raise ValueError("layer_types has sliding_attention without a window")
    window = Window(of.size("sliding_window")) if any(slides) else Causal()
    masks = tuple(window if slide else Causal() for slide in slides)
    return masks[0] if len({*masks}) == 1 else masks


def _rope(of: _Settings) -> Rope:
    new, old = of("rope_parameters"), of("rope_scaling")
    params = dict(new or old or {})
    if new and old and new != old:
        raise ValueError(f"rope_parameters={new} and rope_scaling={old} differ")
    names = {
        "theta": ("rope_theta", "rotary_emb_base"),
        "share": ("partial_rotary_factor", "rotary_pct"),
    }
    found = {"theta": 10_000.0, "share": of("partial_rotary_factor", 1.0)}
    for ours, theirs in names.items():
        for name in theirs:
            if (value := of(name)) is not None:
                found[ours] = value
        found[ours] = params.pop(theirs[0], found[ours])
        check_scale(theirs[0], found[ours])
    if of.family != "gpt_neox" and found["share"] != 1:
        raise ValueError(f"partial_rotary_factor must be 1 in {of.family}")
    kind = params.pop("rope_type", None) or params.pop("type", None) or "default"
    params.pop("type", None)
    scaling = None
    if kind == "linear":
        scaling = LinearScaling(_number(params, "factor"))
    elif kind == "llama3":
        settings = ("factor", "low_freq_factor", "high_freq_factor")
        factor, low, high = (_number(params, name) for name in settings)
        length = _number(params, "original_max_position_embeddings")
        scaling = Llama3Scaling(factor, low, high, int(length))
    elif kind != "default":
        raise ValueError(f"rope_type must be default, linear or llama3, got {kind!r}")
    if left := [name for name, value in params.items() if value is not None]:
        raise ValueError(f"rope_parameters: {left[0]!r} is not supported for {kind!r}")
    share, theta = float(found["share"]), float(found["theta"])
    return Rope(theta, share, "halves", scaling)


def _number(params: dict[str, Any], name: str) -> float:
    if name not in params:
        raise ValueError(f"rope_parameters must have {name!r}")
    value = params.pop(name)
    check_number(name, value)
    return float(value)
