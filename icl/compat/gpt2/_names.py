"""The names of a GPT-2's arrays in Hugging Face."""

from ...models.gpt2 import GPT2Tokens
from .._stored import body, Stored


WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PREFIX = "transformer."
HEAD = "lm_head.weight"


def stored(model: GPT2Tokens) -> dict[str, Stored]:
    """What each array is; a tied unembedding has none. Without prefix."""
    found = {"wte.weight": Stored(("embedding.weight",))}
    found |= body(model, transposed=True)
    if model.untied is not None:
        found[HEAD] = Stored(("untied.weight",))
    return found
