"""`jax.jit` with what makes small programs fast on a CPU."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax


# XLA's CPU compiler gives small element-wise and reduce fusions to a library (YNNPACK)
# that is slow on them; left to single matrix products, a training step takes half the
# time (jax 0.10.2, benchmarks/choices.py).
TRAINING: Mapping[str, Any] = {
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"
}
# Without gradients a forward takes a tenth less with fusions compiled the older way; a
# training step takes a fifth more.
FORWARD: Mapping[str, Any] = {**TRAINING, "xla_cpu_use_fusion_emitters": False}


def jit(fn: Callable, options: Mapping[str, Any] = TRAINING) -> Callable:
    """Compiles `fn` with those of the options that this machine's backend accepts."""
    return jax.jit(fn, compiler_options=_accepted(tuple(options.items())))


@functools.cache
def _accepted(options: tuple[tuple[str, Any], ...]) -> dict[str, Any] | None:
    if jax.default_backend() != "cpu":
        return None
    known = {}
    for name, value in options:
        try:
            one = {name: value}
            jax.jit(lambda x: x + 1, compiler_options=one).lower(0.0).compile()
        except Exception:  # One that a later XLA no longer knows, in any wording.
            continue
        known[name] = value
    return known or None
