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


# Two host devices, so that members are spread over devices in the tests.
jax.config.update("jax_num_cpu_devices", 2)
os.environ.setdefault("MPLBACKEND", "Agg")

# Traces leave many objects that live on: by default Python looks through all of them
# so often that it takes a tenth of the time.
gc.set_threshold(100_000, 20, 100)

# What a shell starts in the background ignores Ctrl-C, as do its children: the tests
# of it would wait for nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Collecting

# Every worker imports all test modules, so these must not call JAX while they are
# imported: there is no such platform, and the traceback names the line.
_platforms = jax.config.jax_platforms
jax.config.update("jax_platforms", "no_jax_while_tests_are_imported")

# The files that take longest, longest first: a worker that began one last would run
# alone at the end. `pytest --durations=0` tells the times.
LONGEST = (
    *("test_science", "test_smoke", "test_notebooks", "test_sweeps", "test_runs"),
    *("test_report", "test_opto", "test_cli_edits", "test_patching", "test_replay"),
    *("test_compat", "test_kinds", "test_verbs", "test_lens", "test_train"),
)


def pytest_collection_modifyitems(items):
    """The longest files first, the others as they were."""
    rank = {name: k for k, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(LONGEST)))


def pytest_collection_finish():
    jax.config.update("jax_platforms", _platforms)


# Shared by tests


@pytest.fixture(scope="session")
def once(tmp_path_factory, worker_id):
    """`once(name, make)` is a folder that `make(folder)` fills once in a session.

    The first worker that asks makes it, while the others wait.
    """
    root = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        root = root.parent  # Of the workers' folders.

    def once(name, make):
        folder, done = root / name, root / f"{name}.done"
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(root / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)  # Of a worker that failed.
                make(folder)
                done.touch()
        return folder

    return once


@pytest.fixture(scope="session")
def small_run(once):
    """The folder of a small finished run, for tests that do not change it."""
    return once("small", lambda folder: icl.run_experiment(small(), folder))


@pytest.fixture(scope="session")
def smoke(once):
    """`smoke(study)` is the folder of a study at smoke scale, trained by processes."""

    def train(folder):
        launch = [sys.executable, "-m", "sweeps", folder.name, "--out", str(folder)]
        options = ["--scale", "smoke", "--members", "16", "--jobs", "2"]
        done = subprocess.run([*launch, *options], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    return lambda study: once(f"smoke/{study}", train)


@pytest.fixture
def getkey():
    """A new random key at each call, the same ones in each run of a test."""
    state = {"key": jax.random.key(0)}

    def get():
        state["key"], key = jax.random.split(state["key"])
        return key

    return get


@pytest.fixture
def unchecked():
    """Without the tests' own checks of types, as users run it."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
