"""`jax.jit` with options that make small programs fast on a CPU."""

import functools
from collections.abc import Callable

import jax


# XLA's CPU compiler gives small element-wise and reduce fusions to a library (YNNPACK)
# that is slow on them. With the library limited to single matrix products, a training
# step takes half the time (jax 0.10.2, benchmarks/choices.py).
_CPU_OPTIONS = {
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"
}


def jit(fn: Callable) -> Callable:
    """Compiles `fn` with the options that this machine's backend accepts."""
    return jax.jit(fn, compiler_options=_options())


@functools.cache
def _options() -> dict[str, str] | None:
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda x: x + 1, compiler_options=_CPU_OPTIONS).lower(0.0).compile()
    except Exception:  # A later XLA may not know the option; its error is unknown.
        return None
    return _CPU_OPTIONS
