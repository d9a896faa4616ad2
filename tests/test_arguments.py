"""Values that a dtype cannot hold."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import opto
from opto import Clamp, Patch


class Half(eqx.Module):
    """Sites of several dtypes."""

    input_axes = ("i",)

    def __call__(self, x, *, tap=opto.identity):
        half = tap("half", x.astype(jnp.float16), "i")
        brain = tap("brain", x.astype(jnp.bfloat16), "i")
        small = tap("small", x.astype(jnp.int8), "i")
        flag = tap("flag", x > 0, "i")
        return half + brain.astype(half.dtype), small, flag


X, MODEL = np.arange(3, dtype=np.float32), Half()

TOO_LARGE = {
    "clamp": lambda site, x: Clamp(site, x),
    "patch": lambda site, x: Patch(site, {site: [0.0, x, 0.0]}),
}


@pytest.mark.parametrize("kind", TOO_LARGE)
def test_what_a_dtype_cannot_hold_is_refused(kind):
    """The largest number of float16 is 65504, of bfloat16 3.39e38."""
    for site, fine, wrong in (("half", 65504.0, 1e6), ("brain", 1e6, 3.4e38)):
        opto.toolkit.check([TOO_LARGE[kind](site, fine)], opto.sites(MODEL, X))
        with pytest.raises(ValueError, match=r"e\+\d+ is not finite as .*float16"):
            opto.run(MODEL, X, edits=[TOO_LARGE[kind](site, wrong)])


def test_whole_numbers_do_not_wrap_around():
    for value in (128, -129, 300.0):
        with pytest.raises(ValueError, match=f"{value:g} is out of range of small"):
            opto.run(MODEL, X, edits=[Clamp("small", value)])
    (_, small, flag), _ = opto.run(
        MODEL, X, edits=[Clamp("small", -128), Clamp("flag", True)]
    )
    assert small.tolist() == [-128] * 3
    assert flag.all()


def test_what_is_not_finite_in_the_first_place_stays_right():
    """For example, scores that a model masks with minus infinity."""
    record = {"half": jnp.array([0.0, -jnp.inf, 1.0])}
    (out, *_), _ = opto.run(MODEL, X, edits=[Patch("half", record)])
    assert np.isneginf(out[1])
