"""Compiled programs in the user's cache folder, for the next process.

The cache is JAX's, with JAX's limit. This file says where it is, and keeps it silent.
"""

import os
import warnings
from pathlib import Path

import jax
import platformdirs


_MEBIBYTES = 256


def keep_programs() -> Path | None:
    """Makes this process keep the programs that it compiles, and use those it finds.

    All commands, jobs and notebooks do this. A second process that computes the same
    then need not compile. The folder is `icl-opto/compiled` in the user's cache folder
    (`~/.cache` on Linux, or `$XDG_CACHE_HOME`) and holds 256 MiB at most: the programs
    that were not used for longest go first. A damaged entry is ignored.

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
    folder = platformdirs.user_cache_path("icl-opto") / "compiled"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _give_times(folder)
    except OSError:
        return None
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return None
    # Without an entry, JAX compiles: nothing for the user to do.
    for error in ("reading", "writing"):
        text = f"Error {error} persistent compilation cache entry"
        warnings.filterwarnings("ignore", message=text)
    # A single operation takes 20 ms to compile, and 1 to 3 ms to read.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_compilation_cache_max_size", _MEBIBYTES * 2**20)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    return folder


def _give_times(folder: Path) -> None:
    """Gives each program a time of use, if a process was killed before it wrote one.

    Without it, JAX 0.10.2 would keep no program any more.
    """
    for program in folder.glob("*-cache"):
        time = program.with_name(f"{program.name.removesuffix('-cache')}-atime")
        if not time.exists():
            time.write_bytes(bytes(8))
