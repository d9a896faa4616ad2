"""A random Pythia of 70 million weights beside transformers in torch.

    pip install torch transformers
    python benchmarks/language_models.py

Sequences are `[8, 128]`. All variants take turns in one process; look at the ratios.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import opto
from icl.compat import hugging_face


ROUNDS = 5
SHAPE = 8, 128


def models() -> tuple[Any, Any]:
    """The same random weights here and there."""
    transformers = __import__("transformers")
    config = transformers.GPTNeoXConfig(
        vocab_size=50_304,
        hidden_size=512,
        num_hidden_layers=6,
        num_attention_heads=8,
        intermediate_size=2048,
    )
    auto = transformers.AutoModelForCausalLM
    theirs = auto.from_config(config, attn_implementation="eager").eval()
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        return hugging_face.load(folder), theirs


def seconds(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median of some rounds in turns, after a first call."""
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in times.items()}


def loss(logits: jax.Array, ids: jax.Array) -> jax.Array:
    """The mean loss of the next token."""
    log = jax.nn.log_softmax(logits[:, :-1])
    return -jnp.take_along_axis(log, ids[:, 1:, None], -1).mean()


def main() -> None:
    """Prints a table of seconds and ratios."""
    torch = __import__("torch")
    ours, theirs = models()
    ids = np.random.default_rng(0).integers(0, 50_304, SHAPE)
    here, there = jnp.asarray(ids), torch.tensor(ids)
    forward = jax.jit(jax.vmap(ours))
    recorded = ["blocks.*.attn.pattern", "blocks.*.resid_post", "embed"]
    heads = opto.Zero("blocks.*.attn.z").each("layer", "head")
    asked = {"output_attentions": True, "output_hidden_states": True}

    def without_heads() -> None:
        layers = theirs.gpt_neox.layers
        for layer in range(6):
            for head in range(8):

                def hook(module, args, head=head):
                    z = args[0].clone()
                    z[..., 64 * head : 64 * (head + 1)] = 0
                    return (z, *args[1:])

                dense = layers[layer].attention.dense
                handle = dense.register_forward_pre_hook(hook)
                logits = theirs(there).logits[:, :-1]
                torch.nn.functional.cross_entropy(
                    logits.reshape(-1, logits.shape[-1]), there[:, 1:].reshape(-1)
                )
                handle.remove()

    rows: dict[str, tuple[Callable[[], Any], Callable[[], Any], int]] = {
        "forward": (lambda: forward(here), lambda: theirs(there), ROUNDS),
        "all patterns and residual streams": (
            lambda: opto.run(ours, here, record=recorded),
            lambda: theirs(there, **asked),
            ROUNDS,
        ),
        "each of 48 heads at zero": (
            lambda: opto.sweep(loss, ours, here, edits=heads, chunk=1),
            without_heads,
            1,
        ),
    }
    device = jax.devices()[0].device_kind
    print(f"{device}, jax {jax.__version__}, torch {torch.__version__}\n")
    print("| s | ours | transformers | ratio |\n| --- | --: | --: | --: |")
    with torch.no_grad():
        logits = np.asarray(forward(here))
        off = np.abs(logits - theirs(there).logits.numpy()).max() / np.abs(logits).max()
        for name, (mine, other, rounds) in rows.items():
            calls = {"ours": lambda f=mine: jax.block_until_ready(f()), "theirs": other}
            found = seconds(calls, rounds)
            ratio = found["ours"] / found["theirs"]
            times = f"{found['ours']:.2f} | {found['theirs']:.2f} | {ratio:.2f}"
            print(f"| {name} | {times} |", flush=True)
    print(f"\nLargest difference of logits, relative: {off:.1e}")


if __name__ == "__main__":
    sys.exit(main())
