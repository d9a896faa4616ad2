"""Our config of a language model as the `config.json` of a family."""

from typing import Any

from ...models import LinearScaling, Llama3Scaling, Window
from ...models.decoder import DecoderConfig
from ._settings import ACTIVATIONS, ARCHITECTURES


def settings_of(config: DecoderConfig, vocabulary: int, family: str) -> dict[str, Any]:
    """The `config.json` of a family that comes nearest to a config."""
    width = config.d_model // config.num_heads if not config.d_head else config.d_head
    heads, rope = config.num_heads, config.positions
    params: dict[str, Any] = {"rope_type": "default", "rope_theta": rope.theta}
    if isinstance(rope.scaling, LinearScaling):
        params |= {"rope_type": "linear", "factor": rope.scaling.factor}
    if isinstance(rope.scaling, Llama3Scaling):
        params |= {
            "rope_type": "llama3",
            "factor": rope.scaling.factor,
            "low_freq_factor": rope.scaling.low,
            "high_freq_factor": rope.scaling.high,
            "original_max_position_embeddings": rope.scaling.length,
        }
    names = {value: name for name, value in reversed(ACTIVATIONS.items())}
    found = {
        "architectures": [ARCHITECTURES[family]],
        "model_type": family,
        "vocab_size": vocabulary,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": heads,
        "intermediate_size": config.d_mlp or 4 * config.d_model,
        "hidden_act": names[config.mlp.activation],
        "max_position_embeddings": config.max_length or 2**20,
        "tie_word_embeddings": config.tied,
        "rope_parameters": params,
    }
    if family == "gpt_neox":
        params["partial_rotary_factor"] = rope.share
        return found | {
            "layer_norm_eps": config.norm.epsilon,
            "attention_bias": config.qkv_bias,
            "use_parallel_residual": config.residual == "parallel",
        }
    found |= {
        "num_key_value_heads": config.num_kv_heads or heads,
        "head_dim": width,
        "rms_norm_eps": config.norm.epsilon,
    }
    masks = config.mask if isinstance(config.mask, tuple) else (config.mask,)
    windows = {mask.size for mask in masks if isinstance(mask, Window)}
    window = max(windows, default=None)
    if family == "llama":
        found |= {"mlp_bias": config.mlp.bias, "attention_bias": config.qkv_bias}
    if family == "mistral":
        found |= {"sliding_window": window}
    if family in ("qwen2", "qwen3"):
        kinds = [
            "sliding_attention" if isinstance(mask, Window) else "full_attention"
            for mask in (masks * config.num_layers)[: config.num_layers]
        ]
        found |= {
            "layer_types": kinds,
            "sliding_window": window,
            "use_sliding_window": window is not None,
        }
    if family in ("qwen3", "gemma"):
        found |= {"attention_bias": config.qkv_bias}
    return found
