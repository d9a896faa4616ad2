"""Compiled programs, kept for the next process."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

from icl.program_cache import keep_programs


# Computes something, and tells what the cache did.
PROGRAM = """
import collections, json, sys
import jax, jax.numpy as jnp
from icl.program_cache import keep_programs

events = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **_: events.update([name]))
folder = keep_programs()
value = jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones((3, 3)))
hits, misses = (events["/jax/compilation_cache/cache_" + k] for k in ("hits", "misses"))
print(json.dumps([str(folder), float(value.sum()), hits, misses]))
"""


def run(home, **variables):
    """The folder, the value, and how many programs were read and compiled."""
    kept = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE", "JAX_PERSIS")
    env = {k: v for k, v in os.environ.items() if not k.startswith(kept)}
    env |= {"XDG_CACHE_HOME": str(home), **variables}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_a_second_process_compiles_nothing(tmp_path):
    folder, value, hits, misses = run(tmp_path)
    assert folder.startswith(str(tmp_path / "icl-opto" / "compiled"))
    assert hits == 0
    assert misses > 0
    assert run(tmp_path) == [folder, value, misses, 0]


def test_damaged_entries_are_ignored(tmp_path):
    _, value, _, misses = run(tmp_path)
    draw = random.Random(0)
    for path in (tmp_path / "icl-opto" / "compiled").glob("*-cache"):
        content = bytearray(path.read_bytes())
        at = draw.randrange(len(content))
        content[at] ^= 1 << draw.randrange(8)
        path.write_bytes(draw.choice([content, content[:at]]))
    assert run(tmp_path)[1:3] == [value, 0]
    assert misses > 0


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path):
    (tmp_path / "file").touch()
    folder, *_, misses = run(tmp_path / "file")
    assert folder == "None"
    assert misses == 0  # JAX counts misses only if there is a cache.


def test_jax_variables_switch_it_off_and_move_it(tmp_path):
    off = run(tmp_path / "off", JAX_ENABLE_COMPILATION_CACHE="false")
    assert off[0] == "None"
    assert not (tmp_path / "off").exists()

    moved = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "moved")}
    folder, *_ = run(
        tmp_path / "on", **moved, JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0"
    )
    assert folder == "None"
    assert not (tmp_path / "on").exists()
    assert any((tmp_path / "moved").iterdir())


def test_a_kill_between_a_program_and_its_time_of_use(tmp_path):
    """JAX itself would then keep no further program."""
    folder, value, *_ = run(tmp_path)
    whole = sorted(Path(folder).glob("*-cache"))
    for time in [*Path(folder).glob("*-atime")][:-1]:
        time.unlink()
    whole[0].unlink()
    assert run(tmp_path)[1::2] == [value, 1]
    assert sorted(Path(folder).glob("*-cache")) == whole


def test_the_tests_themselves_keep_nothing_for_the_user():
    assert keep_programs() is None
