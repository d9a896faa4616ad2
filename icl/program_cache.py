"""Compiled programs in the user's cache folder, for the next process.

The cache itself is JAX's. This file says where it is, and keeps it small and silent.
"""

import hashlib
import itertools
import os
import platform
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import jax
import platformdirs


_MEBIBYTES = 256
_DAY = 24 * 3600.0
_CPUINFO = Path("/proc/cpuinfo")
# Its lines that say what a CPU can do, on x86 and on ARM.
_CPU = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU ", "Features")


def keep_programs() -> Path | None:
    """Makes this process keep the programs that it compiles, and use those it finds.

    All commands, jobs and notebooks do this. A second process that computes the same
    then need not compile. The folder is `icl-opto/programs` in the user's cache folder
    (`~/.cache` on Linux, or `$XDG_CACHE_HOME`) and holds about 256 MiB at most. A
    damaged entry is ignored.

    `JAX_ENABLE_COMPILATION_CACHE=false` switches the cache off. If
    `JAX_COMPILATION_CACHE_DIR` names another folder, JAX uses that one, with JAX's own
    limits.

    **Returns:** the folder, or `None` if this call changed nothing: the cache is off,
    has another folder, or its folder cannot be written.
    """
    # JAX reads both variables when it is imported.
    settings = jax.config.values
    if settings["jax_compilation_cache_dir"] is not None:
        return None
    if not settings["jax_enable_compilation_cache"]:
        return None
    programs = platformdirs.user_cache_path("icl-opto") / "programs"
    folder = programs / _machine()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        writable = os.access(folder, os.R_OK | os.W_OK | os.X_OK)
        if writable:
            _drop_oldest(programs)
    except OSError:
        return None
    if not writable:
        return None
    # Without an entry, JAX compiles: nothing for the user to do.
    for error in ("reading", "writing"):
        text = f"Error {error} persistent compilation cache entry"
        warnings.filterwarnings("ignore", message=text)
    # A single operation takes 20 ms to compile, and 1 to 3 ms to read.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    return folder


def _machine() -> str:
    """A digest of what JAX's own key may not tell apart.

    A program may use all instructions of the CPU that compiled it. A home folder may be
    shared by machines with other CPUs.
    """
    try:
        lines = _CPUINFO.read_text().splitlines()
        first_core = itertools.takewhile(str.strip, lines)
        cpu = [line for line in first_core if line.startswith(_CPU)]
    except OSError:  # Not Linux.
        cpu = [platform.processor()]
    key = [platform.machine(), version("jax"), version("jaxlib"), *cpu]
    return hashlib.sha256("\n".join(key).encode()).hexdigest()[:16]


def _drop_oldest(programs: Path) -> None:
    """Once a day, removes the programs that were not used for longest.

    JAX can do this itself, but all processes then wait for one lock, and no program is
    kept any more after a process was killed between two writes (jax 0.10.2).
    """
    checked = programs / "checked"
    if checked.exists() and time.time() - checked.stat().st_mtime < _DAY:
        return
    checked.touch()
    entries = []
    for path in programs.glob("*/*"):
        try:
            state = path.stat()
        except OSError:  # Another process removed it.
            continue
        entries.append((max(state.st_atime, state.st_mtime), state.st_size, path))
    total = 0
    for _, size, path in sorted(entries, reverse=True):
        total += size
        if total > _MEBIBYTES * 2**20:
            path.unlink(missing_ok=True)
