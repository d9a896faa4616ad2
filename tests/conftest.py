import os

import jax
import pytest


# Two host devices, so that members are spread over devices in the tests.
jax.config.update("jax_num_cpu_devices", 2)
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture
def getkey():
    """A new random key at each call, the same ones in each run of a test."""
    state = {"key": jax.random.key(0)}

    def get():
        state["key"], key = jax.random.split(state["key"])
        return key

    return get
