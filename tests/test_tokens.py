"""Tasks of token ids, their measures, and training steps in Hugging Face's format."""

import dataclasses
import itertools
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import icl
import opto
from icl import measures
from icl.batches import batch
from icl.compat import hugging_face
from icl.measures.in_context import in_context_score
from icl.models.decoder import DecoderConfig
from icl.roles import PADDING
from icl.tasks.tokens import (
    FewShotLabels,
    MarkovRepeats,
    RepeatedTokens,
    token_losses,
    tokenized,
    Tokens,
)


CONFIG = DecoderConfig(d_model=16, num_heads=2, init_std=0.5, tied=False)
REPEATED = RepeatedTokens(11, copy=5)


def drawn(task, size=64):
    return np.asarray(batch(task, size, key=jax.random.key(0)).ids)


# What is drawn


def test_tokens_repeat():
    ids = drawn(REPEATED, 2000)
    np.testing.assert_array_equal(ids[:, :5], ids[:, 5:])
    shares = np.bincount(ids[:, :5].ravel(), minlength=11) / 10_000
    np.testing.assert_allclose(shares, 1 / 11, atol=0.015)


def test_the_small_language():
    task = MarkovRepeats(12, length=16, successors=3, repeats=0.25)
    ids, table = drawn(task, 4000), task.table()
    assert all(len({*row}) == 3 for row in table)
    places = np.arange(16)
    repeats = [(ids == ids[:, places % size]).all(1) for size in range(2, 9)]
    again = np.any(repeats, 0)
    assert sum(x.any() for x in repeats) == 7
    assert again.mean() == pytest.approx(0.25, abs=0.03)
    for row in ids[~again]:
        assert all(b in table[a] for a, b in itertools.pairwise(row))
    others = ids[~again]
    after = others[:, 1:][others[:, :-1] == 4]
    shares = np.bincount(after, minlength=12)[table[4]] / len(after)
    np.testing.assert_allclose(shares, 1 / 3, atol=0.05)
    other = dataclasses.replace(task, language=1).table()
    assert (other != table).any()


@pytest.mark.parametrize("permuted", [True, False])
def test_items_and_their_labels(permuted):
    task = FewShotLabels(30, ((1, 2), (3, 4)), (20, 21), pairs=8, permuted=permuted)
    ids = drawn(task, 400)
    items, labels = ids[:, ::2], ids[:, 1::2]
    first = items <= 2
    for row, of in zip(first, labels, strict=True):
        assert max(len({*of[row]}), len({*of[~row]})) <= 1
    kept = [of[row][0] for row, of in zip(first, labels, strict=True) if row.any()]
    assert np.mean(np.array(kept) == 20) == pytest.approx(
        0.5 if permuted else 1, abs=0.1
    )
    counted = np.asarray(task.scored(jnp.asarray(ids[0])))
    expected = [i % 2 == 1 and x in ids[0, :i] for i, x in enumerate(ids[0])]
    np.testing.assert_array_equal(counted, expected)


# What is measured


def test_losses_are_those_of_numpy():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(10, 11)).astype(np.float32)
    ids = np.tile(rng.integers(0, 11, 5), 2)
    log = logits - scipy.special.logsumexp(logits, axis=1, keepdims=True)
    expected = -log[np.arange(9), ids[1:]]
    found = token_losses(jnp.asarray(logits), jnp.asarray(ids))
    assert np.isnan(found[0])
    np.testing.assert_allclose(found[1:], expected, rtol=1e-5)
    example = Tokens(jnp.asarray(ids))
    metrics = REPEATED.metrics(jnp.asarray(logits), example)
    np.testing.assert_allclose(metrics["loss"], expected[5:].mean(), rtol=1e-5)
    right = logits[5:9].argmax(1) == ids[6:]
    np.testing.assert_allclose(metrics["accuracy"], right.mean(), rtol=1e-6)
    padded = token_losses(jnp.asarray(logits), jnp.asarray(ids).at[:3].set(PADDING))
    assert np.isnan(padded[:4]).all()
    np.testing.assert_allclose(padded[4:], expected[3:], rtol=1e-5)
    record = opto.toolkit.Record({}, ())
    score = in_context_score(2, 9).fn(record, jnp.asarray(logits), example)
    np.testing.assert_allclose(score, expected[8] - expected[1], rtol=1e-5)


# Training steps


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("steps")
    for step in (0, 8, 100):
        model = CONFIG.build(REPEATED.interface, key=jax.random.key(step))
        hugging_face.save(model, folder / f"step{step}")
    return folder


def test_a_replay_over_training_steps(steps):
    found = hugging_face.training_steps(f"{steps}/step*", REPEATED)
    data = batch(REPEATED, 16, key=jax.random.key(1))
    asked = {
        "repeats": measures.repeat_attention(),
        "loss": measures.task_metric(REPEATED, "loss"),
        "by_token": measures.task_metric(REPEATED, "token_loss"),
    }
    replay = icl.replay(found, asked, data=data)
    np.testing.assert_array_equal(replay.sequences, [0, 8, 100])
    for k, step in enumerate((0, 8, 100)):
        model = hugging_face.load(steps / f"step{step}")
        logits, record = opto.run(model, data.ids, record="**.pattern")
        ids = np.asarray(data.ids)
        log = scipy.special.log_softmax(np.asarray(logits, np.float64), -1)
        losses = -np.take_along_axis(log[:, :-1], ids[:, 1:, None], 2)[..., 0]
        np.testing.assert_allclose(replay["loss"][k], losses[:, 5:].mean(), rtol=1e-4)
        np.testing.assert_allclose(replay["by_token"][k, 1:], losses.mean(0), rtol=1e-4)
        for layer in range(2):
            pattern = np.asarray(record[f"blocks.{layer}.attn.pattern"])
            rows = [pattern[:, :, t, t - 4] for t in range(5, 9)]
            expected = np.mean(rows, (0, 1))
            np.testing.assert_allclose(replay["repeats"][k, layer], expected, atol=1e-5)
    # Kept beside the steps, and read again; edits as everywhere.
    assert len([*(steps / "replays").iterdir()]) == 3
    again = icl.replay(found, asked, data=data)
    np.testing.assert_array_equal(again["repeats"], replay["repeats"])
    each = [opto.Zero("blocks.*.attn.z").each("layer", "head")]
    swept = icl.replay(found, {"loss": asked["loss"]}, data=data, edits=each)
    assert swept["loss"].shape == (3, 2, 2)
    edit = [opto.Zero("blocks.1.attn.z", head=1)]
    one = icl.replay(found, {"loss": asked["loss"]}, data=data, edits=edit)
    np.testing.assert_allclose(swept["loss"][:, 1, 1], one["loss"], rtol=1e-5)
    # Folders and patterns need no other call; the set "train" is the default.
    asked = {"repeats": asked["repeats"]}
    listed = icl.replay(sorted(steps.glob("step*")), asked)
    found = icl.replay(f"{steps}/step*", asked)
    np.testing.assert_array_equal(listed["repeats"], found["repeats"])
    assert (listed.seen, listed["repeats"].shape) == ("training steps", (3, 2, 2))
    # A step that was written anew is measured anew.
    model = CONFIG.build(REPEATED.interface, key=jax.random.key(9))
    hugging_face.save(model, steps / "step8")
    found = hugging_face.training_steps([steps / f"step{k}" for k in (0, 8, 100)])
    changed = icl.replay(found, asked, data=data)
    same = (changed["repeats"] == replay["repeats"]).all((1, 2))
    np.testing.assert_array_equal(same, [True, False, True])


WRONG = {
    "no folder of a training step: '{}/none*'": lambda s: f"{s}/none*",
    "and {}/step8 are both step 8": lambda s: [s / "step8", s / "step8"],
    "has no training step at the end of its name": lambda s: [s / "last"],
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_steps(message, steps):
    with pytest.raises(ValueError, match=re.escape(message.format(steps))):
        hugging_face.training_steps(WRONG[message](steps))


def test_a_step_of_another_model(steps, tmp_path):
    other = dataclasses.replace(CONFIG, d_mlp=20).build(
        REPEATED.interface, key=jax.random.key(0)
    )
    hugging_face.save(other, tmp_path / "step1")
    found = hugging_face.training_steps({1: tmp_path / "step1", 2: steps / "step0"})
    data = batch(REPEATED, 2, key=jax.random.key(1))
    with pytest.raises(ValueError, match="step 1 is another model than the last"):
        icl.replay(found, {"repeats": measures.repeat_attention()}, data=data)


PEAK = """
import resource, sys
import icl
from icl import measures
icl.replay(sys.argv[1:], {"repeats": measures.repeat_attention()})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_steps(tmp_path):
    model = DecoderConfig(d_model=256).build(
        dataclasses.replace(REPEATED, vocabulary=5000).interface, key=jax.random.key(0)
    )
    folders = [str(tmp_path / f"step{k}") for k in range(12)]
    for folder in folders:
        hugging_face.save(model, folder)
    size = (tmp_path / "step0/model.safetensors").stat().st_size
    peaks = []
    for count in (3, 12):
        given = [sys.executable, "-c", PEAK, *folders[:count]]
        found = subprocess.run(given, capture_output=True, text=True, check=True)
        peaks.append(int(found.stdout))
    assert size > 1e7
    assert peaks[1] - peaks[0] < size


def test_texts_as_ids(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    words = {"[UNK]": 0, "a": 1, "b": 2, "c": 3}
    model = tokenizers.models.WordLevel(words, unk_token="[UNK]")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    found = tokenized(["a b c", "b", "a b c a b"], tmp_path, length=4)
    expected = [[PADDING, 1, 2, 3], [*[PADDING] * 3, 2], [1, 2, 3, 1]]
    np.testing.assert_array_equal(found.ids, expected)


def test_texts_need_a_tokenizer(tmp_path):
    with pytest.raises(ValueError, match=r"no tokenizer\.json|pip install tokenizers"):
        tokenized(["a"], tmp_path, length=4)


REFUSED = {
    "successors must be at most vocabulary=4, got 5": lambda: MarkovRepeats(
        4, successors=5
    ),
    "there must be one label for each group": lambda: FewShotLabels(9, ((1,),), (2, 3)),
    "ids must be below vocabulary=9, got 9": lambda: FewShotLabels(9, ((9,),), (2,)),
    "late must be above early=50, got 20": lambda: in_context_score(late=20),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        REFUSED[message]()
