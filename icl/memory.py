"""Whether something can fit in memory, checked before it is made."""

import math
import os
from pathlib import Path

import jax

from .devices import on_cpu


def machine_bytes() -> int:
    """Bytes of main memory that this process may use."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return whole
    return min(whole, int(limit)) if limit.isdigit() else whole


def check_memory(what: str, needed: int) -> None:
    """Raises `ValueError` for something larger than all memory, before it is made.

    Something that passes may still not fit, because other things are in memory too.

    **Arguments:**

    - `what`: What it is, with the arguments that make it so large.
    - `needed`: Its size in bytes, or a lower bound.
    """
    there = machine_bytes()
    if needed <= there:
        return  # Do not ask a device: a process that launches jobs must not hold one.
    if not on_cpu():
        stats = jax.devices()[0].memory_stats() or {}
        there = max(there, stats.get("bytes_limit", 0))
    if needed > there:
        raise ValueError(
            f"{what} needs at least {_size(needed)} of memory, but this machine has "
            f"{_size(there)}"
        )


def _size(count: int) -> str:
    power = min(int(math.log(max(count, 1), 1024)), len(_UNITS) - 1)
    return f"{count / 1024**power:,.1f} {_UNITS[power]}"


_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
