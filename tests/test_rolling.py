"""Rolling out, beside a loop of whole runs on inputs that grow."""

import re

import foreign
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_gpt2 import POINTS, TINY

import opto
from icl.models.gpt2 import GPT2Config
from opto.rolling import NextToken, OwnValue, Sample


Z = "blocks.*.attn.z"


@pytest.fixture(scope="module")
def models():
    return foreign.twins(foreign.models()["encoder"][0])


@pytest.fixture
def ids():
    return jax.random.randint(jax.random.key(3), (3, 4), 0, 6)


def loop(model, ids, steps, edits_at, choose):
    """Whole runs; `edits_at(length)` are the edits of one step."""
    answers, records = [], []
    for step in range(steps):
        edits = edits_at(ids.shape[-1])
        out, record = opto.run(model, ids, record=Z, edits=edits)
        answers.append(out[..., -1, :])
        records.append(record["blocks.1.attn.z"])
        token = choose(out[..., -1, :], step)
        ids = jnp.concatenate([ids, token[..., None].astype(ids.dtype)], -1)
    return ids, np.stack(answers), records


EDITS = {
    "none": lambda length: [],
    "newest": lambda length: [opto.Scale(Z, 3.0, pos=-1, head=0)],
    "before": lambda length: [opto.Zero(Z, pos=[-2, 0]), opto.Scale(Z, 2.0, pos=-1)],
    "prompt": lambda length: [opto.Zero(Z, pos=range(4), layer=1)],
    "continuation": lambda length: [
        opto.Zero(Z, pos=range(4, length), layer=1) for _ in range(length > 4)
    ],
}


@pytest.mark.parametrize("name", EDITS)
def test_it_is_a_loop_of_whole_runs(name, models, ids):
    for model in models:
        wanted, answers, records = loop(
            model, ids, 5, EDITS[name], lambda logits, _: jnp.argmax(logits, -1)
        )
        edits = EDITS[name](9)
        found = opto.roll_out(model, ids, steps=5, edits=edits, record=Z)
        np.testing.assert_array_equal(found.inputs[0], wanted)
        np.testing.assert_allclose(found.answers, answers, atol=1e-5)
        for step, record in enumerate(records):
            ours = found.record["blocks.1.attn.z"][step][:, :, : 4 + step]
            np.testing.assert_allclose(ours, record, atol=1e-5)


def test_tokens_are_drawn_from_the_softmax(models, ids):
    model, _ = models
    feed = NextToken(Sample(0.5))
    many = jnp.tile(ids[:1], (4000, 1))
    found = opto.roll_out(model, many, steps=1, feed=feed, seed=1)
    shares = np.bincount(np.asarray(found.inputs[0][:, -1]), minlength=6) / 4000
    expected = jax.nn.softmax(found.answers[0, 0] / 0.5)
    np.testing.assert_allclose(shares, expected, atol=0.03)
    again = opto.roll_out(model, many, steps=1, feed=feed, seed=1)
    assert np.array_equal(again.inputs[0], found.inputs[0])


def test_a_model_of_functions_takes_its_own_values():
    model = GPT2Config(**TINY).build(POINTS, key=jax.random.key(0))
    xs, ys = jax.random.normal(jax.random.key(1), (2, 5, 3)), jnp.ones((2, 2))
    found = opto.roll_out(model, xs, ys, steps=3, feed=OwnValue())
    values = np.array(ys)
    for step in range(3):
        room = np.concatenate([values, np.zeros((2, 1), np.float32)], 1)
        out, _ = opto.run(model, xs[:, : 3 + step], jnp.asarray(room))
        values = np.concatenate([values, out[:, -1:]], 1)
    np.testing.assert_allclose(found.inputs[1], values, atol=1e-5)
    np.testing.assert_allclose(found.answers.T, values[:, 2:], atol=1e-5)


class Looking(foreign.Encoder):
    """Sees what comes later."""

    input_axes = ("seq",)

    def __call__(self, ids, *, tap=opto.identity):
        x = tap("embed", jax.vmap(self.embed)(ids), "seq d_model")
        return jax.vmap(self.head)(x - x.mean(0))


REFUSED = {
    "roll_out takes a causal model; Looking sees": lambda m, ids: opto.roll_out(
        Looking(jax.random.key(0)), ids, steps=2
    ),
    "no site 'blocks.0.attn.zz'": lambda m, ids: opto.roll_out(
        m, ids, steps=2, edits=[opto.Zero("blocks.0.attn.zz")]
    ),
    "seq 6 is out of range": lambda m, ids: opto.roll_out(
        m, ids, steps=2, edits=[opto.Zero(Z, pos=6)]
    ),
    "steps is a whole number, 1 or more, got 0": lambda m, ids: opto.roll_out(
        m, ids, steps=0
    ),
    "temperature is a positive number": lambda m, ids: Sample(0.0),
    "each step needs a point; got 4 points, 3 values and 2": lambda m, ids: (
        OwnValue().begin((jnp.ones((4, 3)), jnp.ones(3)), 2, 0)
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message, models, ids):
    with pytest.raises(ValueError, match=re.escape(message)):
        REFUSED[message](models[0], ids)


def test_an_edit_without_effect_is_said(models, ids):
    with pytest.warns(opto.NoEffectWarning, match="changes nothing .* at any step"):
        opto.roll_out(models[0], ids, steps=2, edits=[opto.Scale(Z, 1.0)])
