"""What `opto.show` and `opto.explore` draw and answer, without a browser."""

import base64
import functools
import json
import pickle
import re
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import opto
from icl.models.decoder import DecoderConfig
from icl.tasks.tokens import RepeatedTokens
from opto.view import Choice, Explorer, Maps, reply


TASK = RepeatedTokens(11, copy=3)
Z = "blocks.*.attn.z"


@functools.cache
def model():
    config = DecoderConfig(d_model=16, num_heads=2, init_std=0.5)
    return config.build(TASK.interface, key=jax.random.key(0))


@functools.cache
def ids():
    return jax.random.randint(jax.random.key(1), (20, 6), 0, 11)


def mean_logit(logits, ids):
    return logits[:, -1, 3].mean()


def wanted_number(logits):
    return pytest.approx(np.mean(np.asarray(logits)[:, -1, 3]), rel=1e-5)


def numbers(data):
    """The numbers that a page draws, with NaN where none is."""
    dtype = np.uint16 if data["wide"] else np.uint8
    codes = np.frombuffer(zlib.decompress(base64.b64decode(data["values"])), dtype)
    share = (codes.reshape(data["shape"]) - 1.0) / (np.iinfo(dtype).max - 1)
    values = data["low"] + share * (data["high"] - data["low"])
    return np.where(codes.reshape(data["shape"]) == 0, np.nan, values)


# Maps


def test_patterns_are_what_was_recorded():
    _, record = opto.run(model(), ids(), record=["**.pattern", "**.scores"])
    data = opto.show(record, "attn.pattern", tokens=list("abcdef")).maps.data()
    wanted = np.stack([record[f"blocks.{k}.attn.pattern"] for k in range(2)], 1)
    wanted = wanted.reshape(20, 4, 6, 6)[:16]
    np.testing.assert_allclose(numbers(data), wanted, atol=1e-5)
    assert data["names"] == ["head 0", "head 1"] * 2
    assert data["groups"] == ["layer 0"] * 2 + ["layer 1"] * 2
    assert (data["rows"][3], data["examples"]) == (list("abcdef"), 20)
    one = opto.show(record, "blocks.1.attn.scores", example=-1).maps.data()
    scores = np.asarray(record["blocks.1.attn.scores"])[-1:]
    wanted = np.where(np.abs(scores) < 1e9, scores, np.nan)
    np.testing.assert_allclose(numbers(one), wanted, atol=1e-3 * np.nanmax(wanted))


def test_norms_by_head_and_by_site():
    _, record = opto.run(model(), ids(), record=["tokens.id", Z, "**.resid_post"])
    z = np.stack([record[f"blocks.{k}.attn.z"] for k in range(2)], 1)
    data = opto.show(record, "attn.z").maps.data()
    wanted = np.linalg.norm(z, axis=-1)[:16]
    np.testing.assert_allclose(numbers(data), wanted, atol=1e-4)
    assert data["columns"][2] == [str(x) for x in np.asarray(ids()[2])]
    data = opto.show(record, "resid_post").maps.data()
    stream = np.stack([record[f"blocks.{k}.resid_post"] for k in range(2)], 1)
    wanted = np.linalg.norm(stream, axis=-1)[:16, None]
    np.testing.assert_allclose(numbers(data), wanted, atol=1e-3)


def test_the_lens_names_the_most_probable_labels():
    logits, names = opto.lens.logit_lens(model(), ids())
    labels = [f"<{k}>" for k in range(11)]
    maps = opto.show_lens(logits, names, labels=labels, top=2).maps
    shares = scipy.special.softmax(np.asarray(logits, np.float64), -1)
    best = shares[1, 4, 2].argsort()[::-1][:2]
    wanted = ", ".join(f"<{k}> {shares[1, 4, 2, k]:.2f}" for k in best)
    assert maps.words[4][0][1][2] == wanted
    np.testing.assert_allclose(maps.values[4, 0], shares[:, 4].max(-1), atol=1e-6)


def test_long_sequences_show_the_largest_numbers():
    rng = np.random.default_rng(0)
    values = np.tril(rng.dirichlet(np.full(512, 0.1), (1, 144, 512)))
    names = [str(k) for k in range(512)]
    heads = [str(k) for k in range(144)]
    maps = Maps(values, heads, heads, [names], [names], "query", "key", "pattern")
    page, data = maps.html(), maps.data()
    assert len(page.encode()) < 1.5e6
    step = data["step"]
    wanted = values[0, 7, step : 2 * step, :step].max()
    assert numbers(data)[0, 7, 1, 0] == pytest.approx(wanted, abs=0.003)
    assert data["rows"][0][1] == f"{step} to {2 * step - 1}"


def test_names_are_text_and_pages_ask_for_nothing():
    _, record = opto.run(model(), ids()[:2], record="**.pattern")
    evil = ["</script><script>alert(1)</script>"] * 6
    page = opto.show(record, tokens=evil)._repr_html_()
    assert page.count("</script>") == 1
    assert "<script>alert" not in page
    assert not re.search(r"https?://", page)


def test_a_record_in_a_notebook_has_a_limit():
    values = np.random.default_rng(0).random((64, 256, 256))
    axes = ("head", "seq", "kv_seq")
    sites = {f"blocks.{k}.attn.pattern": jnp.asarray(values) for k in range(12)}
    record = opto.toolkit.Record(sites, tuple((name, axes) for name in sites))
    page = record._repr_html_()
    assert "data:image/png" in page
    assert len(page) < 1_000_000
    _, whole = opto.run(model(), ids(), record="**")
    table = pickle.loads(pickle.dumps(opto.sites(model(), ids())))
    assert [*table] == [*whole]
    assert repr(table) == repr(opto.sites(model(), ids()))


REFUSED = {
    "no record of 'attn.pattrn'": lambda r: opto.show(r, "attn.pattrn"),
    "needs a site with an axis seq; 'x' was reduced": lambda r: opto.show(
        opto.toolkit.Record({"x": r["blocks.0.attn.pattern"]}), "x"
    ),
    "example 20 is out of range: there are 20": lambda r: opto.show(r, example=20),
    "tokens: wanted 6 for each example, got 2": lambda r: opto.show(
        r, tokens=["a"] * 2
    ),
    "tokens: wanted those of 20 examples, got 1": lambda r: opto.show(
        r, tokens=[["a"] * 6]
    ),
    "labels: wanted 11 texts, got 1": lambda r: opto.show_lens(
        np.zeros((1, 6, 11)), ["x"], labels=["a"]
    ),
    "no site '**.resid_post' has an axis head": lambda r: Explorer(
        model(), ids(), metric=mean_logit, outputs="**.resid_post"
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message):
    _, record = opto.run(model(), ids(), record="**.pattern")
    with pytest.raises(ValueError, match=re.escape(message)):
        REFUSED[message](record)


# Answers


def test_an_answer_is_what_a_run_gives():
    given = [opto.Zero("blocks.1.mlp.out", pos=2)]
    explorer = Explorer(model(), ids(), metric=mean_logit, edits=given)
    assert explorer.heads == ((0, 0), (0, 1), (1, 0), (1, 1))
    _, record = opto.run(model(), ids(), record=Z)
    zero = opto.Zero(Z, heads="0:1 1:0", strength=0.25)
    mean = opto.Mean(Z, record, heads="0:1")
    cases = {
        Choice(): [],
        Choice(((0, 1), (1, 0)), strength=0.25): [zero],
        Choice(((0, 1),), kind="mean"): [mean],
        Choice(((0, 1),), kind="mean", edits=(0,)): [mean, *given],
    }
    for choice, edits in cases.items():
        found = json.loads(json.dumps(explorer.answer(choice)))
        logits, record = opto.run(model(), ids(), record="**.pattern", edits=edits)
        assert found["metric"] == wanted_number(logits)
        bare, _ = opto.run(model(), ids())
        assert found["bare"] == wanted_number(bare)
        pattern = np.asarray(record["blocks.1.attn.pattern"])[:16]
        np.testing.assert_allclose(
            numbers(found["patterns"])[:, 2:], pattern, atol=1e-5
        )
        # The text is a script that gives the same.
        scope = {"opto": opto, "model": model(), "inputs": [ids()]}
        scope["Zero"] = opto.Zero
        exec(found["text"], scope)
        again, _ = opto.run(model(), ids(), edits=scope["edits"])
        assert found["metric"] == wanted_number(again)


WRONG = {
    "there is no head 2:0": {"heads": [[2, 0]]},
    "kind is one of zero, mean, got 'x'": {"kind": "x"},
    "strength is from 0 to 1, got 2.0": {"strength": 2},
    "there is no edit 0": {"edits": [0]},
    "not a choice: 7": 7,
    "not a choice: {'heads': 'ab'}": {"heads": "ab"},
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_choice_is_answered_in_words(message):
    explorer = Explorer(model(), ids(), metric=mean_logit)
    assert reply(explorer, WRONG[message]) == {"wrong": message}


def test_a_widget_answers():
    pytest.importorskip("anywidget")
    widget = opto.explore(model(), ids(), metric=mean_logit)
    sent = []
    widget.send = sent.append
    question = {"number": 3, "choice": {"heads": [[1, 0]]}}
    widget._handle_custom_msg(question, [])
    logits, _ = opto.run(model(), ids(), edits=[opto.Zero(Z, heads="1:0")])
    (found,) = sent
    assert found["number"] == 3
    wanted = wanted_number(logits)
    assert found["answer"]["metric"] == wanted
    assert widget.about["metric"] == "mean_logit"
