"""The devices of this machine: a CPU can be one, or one for each core."""

import contextlib
import os

import jax


def cores() -> int:
    """The CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def divide_cpu(count: int) -> None:
    """Makes `count` JAX devices of the CPU, unless this process already uses JAX."""
    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", count)


def on_cpu() -> bool:
    """Whether JAX computes on a CPU; it starts JAX, and so takes its devices."""
    return jax.default_backend() == "cpu"
