"""Which array of a family of language models is which of ours."""

import re
from typing import Any

from .._stored import leaves_of, Stored


# Ours by theirs, within a layer.
_NEOX = {
    "attention.dense": "attn.output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "mlp_norm",
    "mlp.dense_h_to_4h": "mlp.expand",
    "mlp.dense_4h_to_h": "mlp.contract",
}
_LLAMA = {
    "self_attn.q_proj": "attn.query",
    "self_attn.k_proj": "attn.key",
    "self_attn.v_proj": "attn.value",
    "self_attn.o_proj": "attn.output",
    "self_attn.q_norm": "attn.query_norm",
    "self_attn.k_norm": "attn.key_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "mlp_norm",
    "mlp.gate_proj": "mlp.gate",
    "mlp.up_proj": "mlp.expand",
    "mlp.down_proj": "mlp.contract",
}
UNEMBEDDINGS = {
    "lm_head.weight": "model.embed_tokens.weight",
    "embed_out.weight": "gpt_neox.embed_in.weight",
}
"""The arrays of unembeddings, and those that they are tied to."""

# Constants that older versions store beside the weights.
_CONSTANTS = re.compile(
    r".*\.(rotary_emb\.inv_freq|attention\.bias|attention\.masked_bias)"
)


def is_constant(name: str) -> bool:
    """Whether an array holds no weights."""
    return _CONSTANTS.fullmatch(name) is not None


def names(model: Any, family: str) -> dict[str, Stored]:
    """What each stored array is; the largest come first."""
    neox = family == "gpt_neox"
    ends = {
        "embedding": "gpt_neox.embed_in" if neox else "model.embed_tokens",
        "untied": "embed_out" if neox else "lm_head",
        "final_norm": "gpt_neox.final_layer_norm" if neox else "model.norm",
    }
    theirs = {ours: name for name, ours in (_NEOX if neox else _LLAMA).items()}
    layers = "gpt_neox.layers" if neox else "model.layers"
    found: dict[str, Stored] = {}
    for path, _ in leaves_of(model):
        whole, part = path.rsplit(".", 1)
        if whole in ends:
            found[f"{ends[whole]}.{part}"] = Stored((path,))
            continue
        _, layer, inner = whole.split(".", 2)
        if inner in theirs:
            found[f"{layers}.{layer}.{theirs[inner]}.{part}"] = Stored((path,))
        elif inner == "attn.query":  # Head by head: its query, key and value.
            of = (f"blocks.{layer}.attn.{name}.{part}" for name in _QKV)
            heads = model.config.num_heads
            name = f"{layers}.{layer}.attention.query_key_value.{part}"
            found[name] = Stored(tuple(of), groups=heads)
    # While the last arrays are read, there is twice the memory of these.
    first = [f"{ends[name]}.weight" for name in ("embedding", "untied")]
    return dict(sorted(found.items(), key=lambda item: item[0] not in first))


_QKV = ("query", "key", "value")
