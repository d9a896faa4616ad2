import fcntl
import gc
import os
import shutil
import signal
import subprocess
import sys

import jax
import jaxtyping
import pytest
from small import small

import icl
from icl.cli import main


# Two host devices, so that members are spread over devices in the tests.
jax.config.update("jax_num_cpu_devices", 2)
os.environ.setdefault("MPLBACKEND", "Agg")
# No test reads or writes programs in the folder of the user who runs it.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    jax.config.update("jax_enable_compilation_cache", False)

# Tracing leaves many long-lived objects. With its default settings, Python's garbage
# collector scans them so often that it takes a tenth of the time.
gc.set_threshold(100_000, 20, 100)

# A process that a shell starts in the background ignores Ctrl-C, and so do its
# children. The tests of Ctrl-C would then wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Collecting

# Every worker imports all test modules, so importing them must not call JAX. This
# platform does not exist, so such a call fails and the traceback names the line.
_platforms = jax.config.jax_platforms
jax.config.update("jax_platforms", "no_jax_while_tests_are_imported")

# The slowest files, slowest first. If one of them began last, its worker would run
# alone at the end. `pytest --durations=0` prints the times.
LONGEST = (
    *("test_science", "test_smoke", "test_notebooks", "test_sweeps", "test_runs"),
    "test_docs",
    *("test_report", "test_opto", "test_cli_edits", "test_patching", "test_replay"),
    *("test_compat", "test_kinds", "test_verbs", "test_lens", "test_train"),
)


def pytest_collection_modifyitems(items):
    """Puts the slowest files first; the others keep their order."""
    rank = {name: k for k, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(LONGEST)))


def pytest_collection_finish():
    jax.config.update("jax_platforms", _platforms)


# Fixtures for several files


@pytest.fixture(scope="session")
def once(tmp_path_factory, worker_id):
    """`once(name, make)` returns a folder that `make(folder)` fills once in a session.

    The first worker that asks fills it; the others wait.
    """
    root = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        root = root.parent  # The parent of all workers' folders.

    def once(name, make):
        folder, done = root / name, root / f"{name}.done"
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(root / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)  # A worker failed here.
                make(folder)
                done.touch()
        return folder

    return once


@pytest.fixture(scope="session")
def small_run(once):
    """The folder of a small finished run; tests must not change it."""
    return once("small", lambda folder: icl.run_experiment(small(), folder))


@pytest.fixture(scope="session")
def smoke(once):
    """`smoke(study)` trains a study at smoke scale; returns its folder.

    One study is trained by many processes. To start one takes seconds, so the others
    have a single process.
    """

    def train(folder):
        launch = [sys.executable, "-m", "sweeps", folder.name, "--out", str(folder)]
        options = ["--scale", "smoke", "--members", "16"]
        many = folder.name == "clamps"
        options += ["--jobs", "2"] if many else ["--cluster", "debug"]
        done = subprocess.run([*launch, *options], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    return lambda study: once(f"smoke/{study}", train)


@pytest.fixture(scope="session")
def demo_run(once):
    """The folder of a finished demo (two minutes); tests must not change it."""

    def run(folder):
        with pytest.raises(SystemExit) as end:
            main(["demo", "--out", str(folder)])
        assert not end.value.code

    return once("runs/demo", run)


@pytest.fixture
def getkey():
    """Returns a new random key at each call, the same keys each time a test runs."""
    state = {"key": jax.random.key(0)}

    def get():
        state["key"], key = jax.random.split(state["key"])
        return key

    return get


@pytest.fixture
def unchecked():
    """Turns off the tests' own type checks, as for users."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
