"""`jax.jit` with options that make small programs fast on a CPU."""

import functools
from collections.abc import Callable

import jax
from jaxtyping import Array, Float

from .devices import on_cpu


# What each option gains is measured in benchmarks/choices.py (jax 0.10.2).
_CPU_OPTIONS = {
    # XLA's CPU compiler gives small element-wise and reduce fusions to a library
    # (YNNPACK) that is slow on them, so it is limited to single matrix products.
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT",
    # This pass would remove the barriers of `computed_once` before fusion.
    "xla_disable_hlo_passes": "cse_barrier_expander",
}


def jit(fn: Callable) -> Callable:
    """Compiles `fn` with the options that this machine's backend accepts."""
    return jax.jit(fn, compiler_options=_options())


@functools.cache
def _options() -> dict[str, str] | None:
    if not on_cpu():
        return None
    try:
        jax.jit(lambda x: x + 1, compiler_options=_CPU_OPTIONS).lower(0.0).compile()
    except Exception:  # A later XLA may not know the option; its error is unknown.
        return None
    return _CPU_OPTIONS


def computed_once(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """`x`, which is computed once, as is its gradient, even if many operations read it.

    XLA's CPU compiler puts a copy of cheap operations into each operation that reads
    their result. In a backward pass the gradient of the residual stream grows by a term
    with each layer, and all its terms are then added up anew for each reader.
    """
    return jax.lax.optimization_barrier(x) if on_cpu() else x
