"""Replays against evaluation by hand, one checkpoint and one sequence at a time."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import icl
import opto
from icl import measures, Replay, replay
from icl.batches import batch
from icl.data import LowRankClasses
from icl.measures import EachSequence, GroupMean, Measure, OfModel, Under
from icl.presets.induction import induction
from icl.replaying import _stacks as _replay_stacks, replays
from icl.runs import open_run
from icl.training.optimizers import Adam, Constant
from icl.training.schedules import Every


PATTERN = "blocks.1.attn.pattern"
HEAD = "Zero('blocks.1.attn.z', head=1)"


def parsed(*texts):
    return [opto.parse(text) for text in texts]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run with two small layers and eleven checkpoints."""
    return _train(tmp_path_factory.mktemp("replay") / "run")


def _train(path, **changes):
    base = induction(LowRankClasses(num_classes=60, num_exemplars=2, dim=8))
    experiment = dataclasses.replace(
        base,
        model=dataclasses.replace(base.model, d_model=16, num_heads=4),
        optimizer=Adam(Constant(1e-3)),
        training=dataclasses.replace(
            base.training,
            num_sequences=320,
            evaluate_at=Every(160),
            checkpoint_at=Every(32),
        ),
        evaluations={
            "train": icl.EvaluationSet(size=600),
            "few": icl.EvaluationSet(size=40, classes="test"),
        },
        **changes,
    )
    icl.run_experiment(experiment, path)
    return icl.load(path)


@pytest.fixture(autouse=True)
def forgets(trained):
    shutil.rmtree(trained.run.path / "replays", ignore_errors=True)


def to_labels(record, outputs, example):
    """The query's attention to both labels, for each head of the last layer."""
    return record[PATTERN][:, -1, 1::2].sum(-1)


def loss(record, outputs, example):
    return -jax.nn.log_softmax(outputs)[example.labels[-1]]


TO_LABELS = Measure(to_labels, (PATTERN,), axes="head", label="attention to labels")
LOSS = Measure(loss)


def by_hand(trained, edits=(), data="train"):
    """Losses and attention to labels, by checkpoint and sequence, in float64."""
    sequences = trained.evaluations[data] if isinstance(data, str) else data
    losses, attention = [], []
    for at in trained.run.checkpoints:
        model = trained.run.load(trained.model, at)
        logits, record = opto.run(
            model, sequences.examples, sequences.labels, record=PATTERN, edits=edits
        )
        logits = np.asarray(logits, np.float64)[:, -1]
        largest = logits.max(-1)
        total = np.log(np.exp(logits - largest[:, None]).sum(-1)) + largest
        own = np.asarray(sequences.labels)[:, -1]
        losses.append(total - logits[np.arange(len(own)), own])
        pattern = np.asarray(record[PATTERN], np.float64)
        attention.append(pattern[:, :, -1, 1] + pattern[:, :, -1, 3])
    return np.array(losses), np.array(attention)


def close(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6)


def test_measures_equal_each_checkpoint_by_hand(trained):
    losses, attention = by_hand(trained)
    groups = np.arange(600) % 7 - 1
    found = replay(
        trained,
        {
            "mean": LOSS,
            "each": dataclasses.replace(LOSS, over=EachSequence()),
            "groups": dataclasses.replace(TO_LABELS, over=GroupMean(groups, 8)),
        },
    )
    assert found.sequences.tolist() == trained.run.checkpoints
    close(found["mean"], losses.mean(1))
    close(found["each"], losses)
    wanted = np.full((11, 8, 4), np.nan)
    for k in range(6):
        wanted[:, k] = attention[:, groups == k].mean(1)
    close(found["groups"], wanted)
    assert found.axes["groups"] == "checkpoint group head"
    assert found.axes["each"] == "checkpoint sequence"


def test_under_an_edit(trained):
    losses, attention = by_hand(trained, parsed(HEAD))
    found = replay(trained, {"loss": LOSS, "to": TO_LABELS}, edits=parsed(HEAD))
    close(found["loss"], losses.mean(1))
    close(found["to"], attention.mean(1))
    # The head matters; otherwise the edit would not be visible.
    assert np.abs(losses - by_hand(trained)[0]).max() > 1e-3


def test_under_further_edits_of_one_measure(trained):
    other = opto.Zero("blocks.0.attn.z", head=0)
    found = replay(
        trained,
        {"loss": LOSS, "clamped": Under((other,), LOSS)},
        edits=parsed(HEAD),
        data="few",
    )
    close(found["loss"], by_hand(trained, parsed(HEAD), "few")[0].mean(1))
    close(found["clamped"], by_hand(trained, [*parsed(HEAD), other], "few")[0].mean(1))


def test_derived_edits_that_look_at_the_tokens(trained):
    edits = parsed("Pattern(Induction(), site='blocks.1.attn.pattern', head=2)")
    found = replay(trained, {"loss": LOSS, "to": TO_LABELS}, edits=edits)
    losses, attention = by_hand(trained, edits)
    close(found["loss"], losses.mean(1))
    close(found["to"], attention.mean(1))


def test_swept_edits_have_axes_of_their_own(trained):
    heads = opto.Zero("blocks.*.attn.z").each("layer", "head")
    found = replay(trained, {"loss": LOSS}, edits=[heads], data="few")
    assert found.axes["loss"] == "checkpoint layer head"
    for layer in range(2):
        for head in range(4):
            edit = opto.Zero(f"blocks.{layer}.attn.z", head=head)
            wanted = by_hand(trained, [edit], "few")[0].mean(1)
            close(found["loss"][:, layer, head], wanted)


def test_a_stack_is_one_axis_and_chosen_checkpoints_keep_their_order(trained):
    edits = opto.stack(parsed(HEAD, "Scale('blocks.0.attn.out', 0.5)"))
    found = replay(
        trained, {"to": TO_LABELS}, edits=[edits], data="few", checkpoints=[-1, 64, -1]
    )
    assert found.axes["to"] == "checkpoint edit head"
    assert found.sequences.tolist() == [320, 64]
    for k, edit in enumerate(edits.edits):
        wanted = by_hand(trained, [edit], "few")[1].mean(1)
        close(found["to"][:, k], wanted[[10, 2]])


def test_of_a_model_as_a_whole(trained):
    def norm(model, task, sequences, edits):
        assert sequences.examples.shape == (600, 3, 8)
        return jnp.linalg.norm(model.unembed.weight) + len(edits)

    found = replay(trained, {"norm": OfModel(norm)}, edits=parsed(HEAD))
    models = [trained.run.load(trained.model, at) for at in trained.run.checkpoints]
    wanted = [1 + np.linalg.norm(np.asarray(m.unembed.weight)) for m in models]
    close(found["norm"], wanted)


def test_two_weights_of_one_shape_are_two_questions(trained):
    """Their programs differ only in which argument they read."""
    for layer in (0, 1):

        def fn(model, task, batch, edits, layer=layer):
            return jnp.sum(model.blocks[layer].attn.query.weight ** 2)

        found = replay(trained, {"sum": OfModel(fn)})
        weight = np.asarray(trained.model.blocks[layer].attn.query.weight)
        np.testing.assert_allclose(found["sum"][-1], (weight**2).sum(), rtol=1e-4)


@pytest.mark.parametrize("lapack", [False, True])
def test_programs_with_lapack_run_alone(trained, monkeypatch, lapack):
    """Two threads in LAPACK at the same time can make XLA wait forever on a CPU."""

    def fn(model, task, batch, edits):
        weight = model.unembed.weight
        squares = weight @ weight.T + jnp.eye(len(weight))
        solved = jnp.linalg.solve(squares, weight) if lapack else squares @ weight
        return solved.sum()

    asked = []

    def pool(workers):
        asked.append(workers)
        return ThreadPoolExecutor(workers)

    monkeypatch.setattr(_replay_stacks, "ThreadPoolExecutor", pool)
    monkeypatch.setattr(_replay_stacks, "_STACK", 2)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    found = replay(trained, {f"lapack {lapack}": OfModel(fn)})
    assert np.isfinite(found[f"lapack {lapack}"]).all()
    assert asked == [1 if lapack else 4]


def test_the_query_row_alone_is_that_row(trained):
    """The last block computes only that row, or all rows if an edit is there."""
    shapes = []

    def look(record, outputs, example):
        shapes.append(record[PATTERN].shape)
        return to_labels(record, outputs, example)

    measure = Measure(look, (PATTERN,), axes="head", rows="query")
    close(replay(trained, {"to": measure})["to"], by_hand(trained)[1].mean(1))
    assert {*shapes} == {(4, 1, 5)}
    shapes.clear()
    found = replay(trained, {"to": measure}, edits=parsed(HEAD))
    close(found["to"], by_hand(trained, parsed(HEAD))[1].mean(1))
    assert {*shapes} == {(4, 5, 5)}


def test_exemplars_that_are_all_different(trained):
    task = dataclasses.replace(trained.experiment.task, noise=0.3)
    sequences = batch(task.build(trained.task.data), 33, key=jax.random.key(1))
    found = replay(trained, {"loss": LOSS, "to": TO_LABELS}, data=sequences)
    losses, attention = by_hand(trained, (), sequences)
    close(found["loss"], losses.mean(1))
    close(found["to"], attention.mean(1))


def test_measures_get_the_exemplars_themselves(trained):
    def total(record, outputs, example):
        return jnp.sum(record["tokens.exemplar"]) - jnp.sum(example.examples)

    for record in (("tokens.exemplar",), ("tokens.exemplar", PATTERN)):
        found = replay(trained, {"nothing": Measure(total, record)})
        assert not found["nothing"].any()


def test_training_edits_are_in_force_unless_others_are_given(tmp_path):
    trained = _train(tmp_path / "run", edits=(HEAD,))
    close(replay(trained, {"l": LOSS})["l"], by_hand(trained, parsed(HEAD))[0].mean(1))
    plain = replay(trained, {"l": LOSS}, edits=())
    close(plain["l"], by_hand(trained)[0].mean(1))


# What is kept


def refuse(*args, **kwargs):
    raise RuntimeError("it was measured again")


def test_what_was_measured_is_read_back(trained, monkeypatch):
    first = replay(trained, {"loss": LOSS, "to": TO_LABELS})
    monkeypatch.setattr(_replay_stacks, "_measured", refuse)
    # Another name, another but equivalent function, and fewer checkpoints.
    again = Measure(lambda r, o, e: -jax.nn.log_softmax(o)[e.labels[-1]])
    found = replay(trained, {"l": again}, checkpoints=[32, 320])
    assert np.array_equal(found["l"], first["loss"][[1, 10]])


def shifted(by):
    return Measure(lambda record, outputs, example: loss(record, outputs, example) + by)


def through_jit(weights):
    """A measure whose constants are in an inner `jit`."""
    inner = jax.jit(lambda x: (x * weights).sum())
    return Measure(lambda record, logits, example: inner(logits[:2]))


def under_a_scale(values):
    """A measure under an edit; the edit's factor varies."""
    return Under((opto.Scale("blocks.0.attn.q_pre", float(values[0])),), LOSS)


@pytest.mark.parametrize("by", [through_jit, under_a_scale])
def test_constants_within_measures_count(trained, by):
    first = np.array([1.0, 2.0], np.float32)
    for both in ((first, 2 * first), (jnp.asarray(3 * first), jnp.asarray(4 * first))):
        one, other = (replay(trained, {"l": by(x)})["l"] for x in both)
        assert np.abs(one - other).min() > 1e-6


def test_a_measure_that_calls_back_into_python_is_not_stored(trained):
    added = [0.0]

    def fn(record, outputs, example):
        known = jax.ShapeDtypeStruct((), jnp.float32)
        return jax.pure_callback(
            lambda: np.float32(added[0]), known, vmap_method="sequential"
        )

    measure = Measure(fn)
    assert replay(trained, {"x": measure}, data="few")["x"].tolist() == [0.0] * 11
    added[0] = 1.0
    assert replay(trained, {"x": measure}, data="few")["x"].tolist() == [1.0] * 11
    assert not (trained.run.path / "replays").exists()


def made(settings):
    """Arguments for `replay`, from settings with edits as texts."""
    edits = {"edits": parsed(*settings["edits"])} if "edits" in settings else {}
    return settings | edits


@pytest.mark.parametrize(
    "change",
    [
        {"measures": {"l": dataclasses.replace(LOSS, over=EachSequence())}},
        {"measures": {"l": shifted(np.array([0.0, 2.0], np.float32))}},
        {"edits": [HEAD]},
        {"edits": ["Zero('blocks.1.attn.z', head=1, strength=0.5)"]},
        {"data": "few"},
    ],
)
def test_something_else_is_measured_anew(trained, monkeypatch, change):
    same = {"measures": {"l": shifted(np.array([0.0, 1.0], np.float32))}}
    replay(trained, **same)
    monkeypatch.setattr(_replay_stacks, "_measured", refuse)
    replay(trained, **same)
    with pytest.raises(RuntimeError, match="again"):
        replay(trained, **made(same | change))


def test_a_checkpoint_that_has_changed_is_measured_anew(tmp_path, monkeypatch):
    trained = _train(tmp_path / "run")
    first = replay(trained, {"l": LOSS})
    file = trained.run.checkpoint_file(64)
    os.utime(file, (1, 1))
    with monkeypatch.context() as patched:
        patched.setattr(_replay_stacks, "_measured", refuse)
        replay(trained, {"l": LOSS})  # A new time stamp, but the same content.
    with open_run(trained.run.path, trained.run.config, resume=True) as run:
        run.save_checkpoint(64, icl.load(trained.run.path, 320).model)
    second = replay(trained, {"l": LOSS})
    assert np.flatnonzero(first["l"] != second["l"]).tolist() == [2]
    assert second["l"][2] == second["l"][10]


def test_runs_of_one_shape_share_a_program(trained, tmp_path, monkeypatch):
    replay(trained, {"l": LOSS})
    other = _train(tmp_path / "run", init_seed=8)
    monkeypatch.setattr(_replay_stacks, "jit", refuse)
    first, second = replays([trained, other.run.path], {"l": LOSS})
    close(first["l"], by_hand(trained)[0].mean(1))
    close(second["l"], by_hand(other)[0].mean(1))


def test_programs_are_shared_by_edits_of_other_names(trained):
    """Their patterns match the same site; each result is computed separately."""
    wanted = by_hand(trained, parsed(HEAD), "few")[0].mean(1)
    for site in ("blocks.1.attn.z", "blocks.1.*.z", "**.1.attn.z"):
        edit = opto.Zero(site, head=1)
        close(replay(trained, {"l": LOSS}, edits=[edit], data="few")["l"], wanted)
        shutil.rmtree(trained.run.path / "replays")


def test_a_damaged_file_of_what_was_found_costs_time_alone(trained):
    first = replay(trained, {"l": LOSS})
    (file,) = (trained.run.path / "replays").glob("*.h5")
    whole = file.read_bytes()
    file.write_bytes(whole[:500])
    assert np.array_equal(replay(trained, {"l": LOSS})["l"], first["l"])
    for name, other in {
        "value": np.zeros((11, 3)),
        "digest": np.arange(11),
        "sequences": np.int64(3),
    }.items():
        file.write_bytes(whole)
        with h5py.File(file, "a") as opened:
            del opened[name]
            opened[name] = other
        assert np.array_equal(replay(trained, {"l": LOSS})["l"], first["l"])
    # The intact results of another request, under this request's name.
    replay(trained, {"l": LOSS}, data="few")
    (other,) = {*file.parent.glob("*.h5")} - {file}
    shutil.copyfile(other, file)
    assert np.array_equal(replay(trained, {"l": LOSS})["l"], first["l"])
    file.write_bytes(np.random.default_rng(0).bytes(5000))
    assert np.array_equal(replay(trained, {"l": LOSS})["l"], first["l"])
    file.unlink()
    file.mkdir()
    with pytest.warns(UserWarning, match="are not stored: cannot write"):
        assert np.array_equal(replay(trained, {"l": LOSS})["l"], first["l"])
    file.rmdir()


def test_the_dense_set_has_a_name(trained):
    every = icl.dense_set(trained.task, max_class_pairs=2, key=jax.random.key(0))
    expected = replay(trained, {"l": LOSS}, data=every)["l"]
    np.testing.assert_array_equal(
        replay(trained, {"l": LOSS}, data="dense:2")["l"], expected
    )


SCRIPT = """
import sys, time, numpy as np, icl
from icl.replaying import _stacks as _replay_stacks
from icl.measures import Measure

run, out, slow = sys.argv[1:]
if slow == "slow":
    _replay_stacks._SAVE_EVERY, _replay_stacks._STACK = 0.0, 2
    read = icl.Run.read_checkpoint
    icl.Run.read_checkpoint = lambda run, at: time.sleep(0.2) or read(run, at)
found = icl.replay(run, {"loss": Measure(lambda r, logits, e: logits[e.labels[-1]])})
found.save(out)
"""


def started(trained, out, speed):
    """Starts a process that replays a run."""
    script = textwrap.dedent(SCRIPT)
    command = [sys.executable, "-c", script, trained.run.path, out, speed]
    return subprocess.Popen([*map(str, command)])


def test_a_replay_that_is_killed_goes_on_and_gives_the_same_file(trained, tmp_path):
    assert started(trained, tmp_path / "whole.h5", "fast").wait() == 0
    shutil.rmtree(trained.run.path / "replays")
    process = started(trained, tmp_path / "part.h5", "slow")
    while not [*(trained.run.path / "replays").glob("*.h5")]:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (kept,) = (trained.run.path / "replays").glob("*.h5")
    with h5py.File(kept) as file:
        assert 0 < len(file["sequences"]) < 11
    assert not (tmp_path / "part.h5").exists()
    # Then two at once.
    files = [tmp_path / name for name in ("part.h5", "other.h5")]
    both = [started(trained, file, "slow") for file in files]
    assert [process.wait() for process in both] == [0, 0]
    whole = (tmp_path / "whole.h5").read_bytes()
    assert [file.read_bytes() for file in files] == [whole, whole]
    left = [*(trained.run.path / "replays").iterdir()]
    # The signal may have come while a file was written, under the process's own name.
    assert [file for file in left if f".{process.pid}-" not in file.name] == [kept]
    with h5py.File(kept) as file:
        assert len(file["sequences"]) == 11


def test_a_saved_replay_is_read_back(trained, tmp_path):
    found = replay(trained, {"to": TO_LABELS}, data="few")
    found.save(tmp_path / "x.h5")
    again = Replay.read(tmp_path / "x.h5")
    assert np.array_equal(again["to"], found["to"])
    assert np.array_equal(again.sequences, found.sequences)
    assert (again.axes, again.labels) == (found.axes, found.labels)
    with pytest.raises(ValueError, match=r"config.json is not a replay"):
        Replay.read(trained.run.path / "config.json")
    log = (trained.run.path / "log.h5").read_bytes()
    with pytest.raises(ValueError, match=r"log.h5 exists and is not a replay"):
        found.save(trained.run.path / "log.h5")
    assert (trained.run.path / "log.h5").read_bytes() == log
    found.save(tmp_path / "x.h5")


def test_a_replay_as_an_xarray(trained):
    pytest.importorskip("xarray")
    heads = opto.Zero("blocks.1.attn.z").each("head")
    one = replay(trained, {"to": TO_LABELS, "l": LOSS}, edits=[heads], data="few")
    data = one.to_xarray()
    assert dict(data.sizes) == {"checkpoint": 11, "edit_head": 4, "head": 4}
    got = data["to"].sel(checkpoint=64, edit_head=2, head=1).item()
    assert got == one["to"][2, 2, 1]
    assert data["to"].attrs == {"long_name": "attention to labels"}
    values = {"a": np.arange(6.0).reshape(2, 3), "b": np.arange(8.0).reshape(2, 4)}
    axes = dict.fromkeys(values, "checkpoint 0")
    other = Replay(np.array([0, 8]), values, axes, dict.fromkeys(values, ""))
    assert dict(other.to_xarray().sizes) == {"checkpoint": 2, "a_0": 3, "b_0": 4}


def test_measures_of_weights_say_that_edits_do_nothing(trained):
    biases = {"b": measures.unembedding_biases()}
    found = replay(trained, biases)
    model = trained.run.load(trained.model, -1)
    close(found["b"][-1], np.asarray(model.unembed.bias))
    with pytest.raises(ValueError, match="'b' reads the weights, .* remove the edits"):
        replay(trained, biases, edits=parsed(HEAD))


def test_weights_that_a_graft_has_replaced_are_refused(trained):
    grafted = dataclasses.replace(trained, edits=(opto.Graft(trained.model, until=0),))
    biases = {"b": measures.unembedding_biases()}
    with pytest.raises(ValueError, match="'b' reads the run's own weights, .* Graft"):
        replay(grafted, biases)
    assert replay(grafted, biases, edits=())["b"].shape == (11, 5)


def test_axes_of_one_name_are_told_apart(trained):
    heads = opto.Zero("blocks.1.attn.z").each("head")
    found = replay(trained, {"to": TO_LABELS}, edits=[heads], checkpoints=[-1])
    assert found.axes["to"] == "checkpoint edit_head head"
    wanted = by_hand(trained, [opto.Zero("blocks.1.attn.z", head=2)])[1].mean(1)
    close(found["to"][0, 2], wanted[-1])


# Refused requests


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"measures": {"l": loss}}, "measure 'l' must be an icl.measures.Measure"),
        ({"measures": {"a/b": LOSS}}, "text without '/', got 'a/b'"),
        ({"data": "trian"}, "no evaluation set 'trian'; did you mean 'train'"),
        ({"data": 3}, "data must be the name of an evaluation set, or a batch"),
        ({"data": {"train": np.zeros(3)}}, "data must be the name .* got dict"),
        ({"checkpoints": [33]}, "no checkpoint 33 .*nearest is 32"),
        ({"checkpoints": []}, "no checkpoints to replay"),
        ({"edits": ["Zero('blocks.1.attn.zz')"]}, "did you mean 'blocks.1.attn.z'"),
        ({"edits": ["Zero('blocks.1.attn.z', head=4)"]}, "head"),
        ({"measures": {"m": Measure(loss, ("blocks.7.z",))}}, "measure 'm': no site"),
        (
            {"measures": {"m": dataclasses.replace(LOSS, over=GroupMean([0, 1]))}},
            "GroupMean needs one index for each sequence, got 2 indices for 600",
        ),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_compiled(
    trained, unchecked, monkeypatch, wrong, message
):
    monkeypatch.setattr(_replay_stacks, "_measured", refuse)
    settings = made({"measures": {"l": LOSS}, **wrong})
    with pytest.raises(ValueError, match=message):
        replay(trained, **settings)


def test_an_edit_that_has_no_answer_for_some_sequences_says_so(trained):
    few = trained.evaluations["few"]
    # In the first three sequences, the query's label is not in the context.
    labels = np.array(few.labels)
    labels[:3, -1] = [min({0, 1, 2} - {*row[:2]}) for row in labels[:3].tolist()]
    sequences = dataclasses.replace(few, labels=jnp.asarray(labels))
    edit = opto.parse("Pattern(Induction(), site='blocks.1.attn.pattern')")
    with pytest.raises(ValueError, match="in 3 of 40 sequences"):
        replay(trained, {"l": LOSS}, edits=[edit], data=sequences)
    with pytest.raises(ValueError, match="in 3 of 40 sequences"):
        replay(trained, {"l": Under((edit,), LOSS)}, data=sequences)
    heads = opto.Zero("blocks.0.attn.z").each("head")
    with pytest.raises(ValueError, match="in 3 of 40 sequences"):
        replay(trained, {"l": LOSS}, edits=[heads, edit], data=sequences)
    either = opto.stack([*parsed(HEAD), edit])
    with pytest.raises(ValueError, match="in 3 of 40 sequences"):
        replay(trained, {"l": LOSS}, edits=[either], data=sequences)


def test_a_damaged_checkpoint_is_named(tmp_path):
    trained = _train(tmp_path / "run")
    file = trained.run.checkpoint_file(96)
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(ValueError, match="000000000096.eqx is damaged or of another"):
        replay(trained, {"l": LOSS})
    # A checkpoint of a run with another shape in its place.
    other = eqx.tree_at(lambda m: m.unembed.bias, trained.model, jnp.zeros(9))
    eqx.tree_serialise_leaves(file, eqx.filter(other, eqx.is_array))
    with pytest.raises(ValueError, match="000000000096.eqx is damaged or of another"):
        replay(trained, {"l": LOSS})
