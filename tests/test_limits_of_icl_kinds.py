"""Kinds of attention against what the public code `limits_of_icl` computes."""

import functools
import json
import pathlib

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import key

import opto
from icl.models import (
    Attention,
    Causal,
    ElementwiseRebasedAttention,
    NoPositions,
    RelaAttention,
    SoftmaxAttention,
    UnstabilisedFavorAttention,
    Window,
)


REFERENCE = pathlib.Path(__file__).parents[2] / "shared/data/limits_of_icl"
pytestmark = pytest.mark.skipif(
    not REFERENCE.exists(), reason="needs the reference data"
)
# The kind, its mask and its number of key and value heads.
KINDS = {
    "softmax_causal": (SoftmaxAttention(), Causal(), None),
    "local": (SoftmaxAttention(), Window(5), None),
    "local_global": (SoftmaxAttention(), Window(5, (3, 9)), None),
    "mqa": (SoftmaxAttention(), Causal(), 1),
    "rela": (RelaAttention(), Causal(), None),
    "favor": (UnstabilisedFavorAttention(), Causal(), None),
    "rebased": (ElementwiseRebasedAttention(), Causal(), None),
}


@functools.cache
def read(name):
    with np.load(REFERENCE / f"{name}.npz") as data:
        return dict(data)


def layer(name, number, data):
    """Our attention with the weights of a layer of the reference."""
    kind, mask, kv_heads = KINDS[name]
    attn = Attention(
        16,
        2,
        kind=kind,
        num_kv_heads=kv_heads,
        mask=mask,
        qkv_bias=True,
        key=key(0),
        output_bias=True,
    )
    scope = f"_backbone.transformer.h.{number}.attn."
    theirs = {k.removeprefix(scope): data[k] for k in data if k.startswith(scope)}
    for part in ("weight", "bias"):
        if kv_heads:
            three = [theirs[f"{x}_proj.{part}"] for x in "qkv"]
        else:
            three = np.split(theirs[f"c_attn.{part}"], 3)
        where = lambda a, p=part: [
            getattr(x, p) for x in (a.query, a.key, a.value, a.output)
        ]
        four = [jnp.asarray(x) for x in (*three, theirs[f"c_proj.{part}"])]
        attn = eqx.tree_at(where, attn, four)
    own = {
        "rela": lambda a: ((a.kind.gain, "rms_gain"), (a.kind.gate, "gate_w")),
        "favor": lambda a: ((a.kind.directions.value, "omega"),),
        "rebased": lambda a: ((a.kind.gain, "gamma"), (a.kind.offset, "beta")),
    }
    if pick := own.get(name):
        values = [jnp.asarray(theirs[n]).reshape(x.shape) for x, n in pick(attn)]
        attn = eqx.tree_at(lambda a: [x for x, _ in pick(a)], attn, values)
    return attn


def test_the_windows_are_those_of_the_reference():
    settings = json.loads((REFERENCE / "config.json").read_text())["kinds"]
    for name in ("local", "local_global"):
        given = settings[name]["constructor"]["attention_kwargs"]
        globals_ = tuple(given.get("global_attn_indices", ()))
        mask = Window(given["local_window_size"], globals_)
        assert mask == KINDS[name][1]
        whole = read(name)["buffer/_backbone.transformer.h.0.attn.local_global_mask"]
        np.testing.assert_array_equal(mask.seen(20, 0), whole[0, 0])
        # Positions beyond a shorter sequence do nothing.
        np.testing.assert_array_equal(mask.seen(8, 3), whole[0, 0, 3:8, :8])


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("number", [0, 1])
def test_a_layer_is_that_of_the_reference(name, number):
    data = read(name)
    attn = layer(name, number, data)
    act = {k: data[f"act/h.{number}.{k}"] for k in ("pattern", "attn_normed")}
    act |= {k: data[f"act/h.{number}.{k}"] for k in ("attn_pre_proj", "attn_out")}
    positions = NoPositions().build(16, key=key(0))
    forward = lambda x, *, tap=opto.identity: attn(x, positions, tap=tap)
    _, record = eqx.filter_vmap(lambda x: opto.run(forward, x, record="**"))(
        jnp.asarray(act["attn_normed"])
    )
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)
    close(record["pattern"], act["pattern"])
    before = np.asarray(record["z_post" if "z_post" in record else "z"])
    close(np.moveaxis(before, 1, 2).reshape(4, 16, 16), act["attn_pre_proj"])
    close(record["out"], act["attn_out"])
    # Without a request, another form may compute the same.
    close(eqx.filter_jit(eqx.filter_vmap(forward))(act["attn_normed"]), act["attn_out"])
