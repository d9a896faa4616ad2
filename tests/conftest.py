import os
import signal

import jax
import jaxtyping
import pytest


# Two host devices, so that members are spread over devices in the tests.
jax.config.update("jax_num_cpu_devices", 2)
os.environ.setdefault("MPLBACKEND", "Agg")

# What a shell starts in the background ignores Ctrl-C, as do its children: the tests
# of it would wait for nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
