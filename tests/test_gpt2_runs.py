"""Runs of a GPT-2 of points: replays and sweeps against changed weights, by hand."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import icl
import opto
from icl.measures import Measure
from icl.models.gpt2 import GPT2Config
from icl.presets.functions import function_linear
from icl.protocols import TaskSet
from icl.tasks.functions import InContextFunction
from icl.training.optimizers import Adam, Constant
from icl.training.schedules import Every


LAYERS, HEADS, WIDTH = 2, 2, 4


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("gpt2") / "run"
    base = function_linear()
    experiment = dataclasses.replace(
        base,
        task=InContextFunction(dim=3, points=4),
        model=GPT2Config(LAYERS, HEADS * WIDTH, HEADS, max_length=8, init_std=0.3),
        optimizer=Adam(Constant(3e-3)),
        training=dataclasses.replace(
            base.training,
            num_sequences=640,
            evaluate_at=Every(320),
            checkpoint_at=Every(128),
        ),
        evaluations={"train": TaskSet(50)},
    )
    icl.run_experiment(experiment, path)
    return icl.load(path)


def squares(predictions, example):
    return np.square(np.asarray(predictions, np.float64) - example.ys).mean()


def without_head(model, layer, head):
    """The model whose head writes nothing: its columns of the output are zero."""
    where = lambda m: m.blocks[layer].attn.output.weight
    own = slice(WIDTH * head, WIDTH * (head + 1))
    return eqx.tree_at(where, model, where(model).at[:, own].set(0.0))


def losses_by_hand(model, batch):
    def of(changed):
        return squares(jax.vmap(lambda x, y: changed(x, y))(batch.xs, batch.ys), batch)

    rows = [
        [of(without_head(model, layer, head)) for head in range(HEADS)]
        for layer in range(LAYERS)
    ]
    return of(model), np.array(rows)


def squares_of(predictions, xs, ys):
    return jnp.mean((predictions - ys) ** 2)


def test_a_replay_and_a_sweep_are_those_of_changed_weights(trained):
    zeroed = opto.Zero("blocks.*.attn.z").each("layer", "head")
    loss = {"loss": Measure(lambda _, outputs, it: squares_of(outputs, it.xs, it.ys))}
    found = icl.replay(trained, loss)
    without = icl.replay(trained, loss, edits=[zeroed])
    assert found.sequences.tolist() == [0, 128, 256, 384, 512, 640]
    assert without.axes["loss"] == "checkpoint layer head"
    batch = trained.evaluations["train"]
    for k, at in enumerate(trained.run.checkpoints):
        model = trained.run.load(trained.model, at)
        whole, each = losses_by_hand(model, batch)
        np.testing.assert_allclose(found["loss"][k], whole, rtol=2e-5)
        np.testing.assert_allclose(without["loss"][k], each, rtol=2e-5)
        swept = opto.sweep(squares_of, model, batch.xs, batch.ys, edits=zeroed)
        np.testing.assert_allclose(swept, each, rtol=2e-5)
    assert np.ptp(without["loss"][-1]) > 1e-3  # The heads differ.
