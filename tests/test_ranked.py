"""Heads found by measuring another run."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from older import unsealed

import icl
import opto
from icl.config import changed, from_json, to_json
from icl.data import LowRankClasses
from icl.edits.names import filled, names
from icl.edits.ranked import RankedHeads
from icl.presets.induction import induction
from icl.training import Training
from icl.training.schedules import Every
from sweeps.plan import program


OTHERS = RankedHeads("measured", "induction_strength", 1, (1, 2, 3))
PREVIOUS = RankedHeads("measured", "previous_token", 0, checkpoint=0)
EDITS = (
    "Zero('blocks.1.attn.z', head={others})",
    "Pattern(PreviousToken(), site='blocks.0.attn.pattern', head={previous})",
)


def small(**changes):
    """Two steps with four heads in each layer, which attend to different tokens."""
    base = induction(LowRankClasses(num_classes=60, num_exemplars=3, dim=16))
    model = dataclasses.replace(base.model, d_model=16, num_heads=4, init_scale=3.0)
    sets = {"train": dataclasses.replace(base.evaluations["train"], size=20)}
    training = Training(64, 32, None, Every(64), Every(32))
    changes = {"evaluations": sets, "training": training, "model": model, **changes}
    return dataclasses.replace(base, **changes)


def clamped(**changes):
    heads = {"others": OTHERS, "previous": PREVIOUS}
    return small(**{"edits": EDITS, "heads": heads, **changes})


def members():
    """Two members with different heads, but equally many."""
    rival = dataclasses.replace(OTHERS, ranks=(0, 1, -1))
    return clamped(), clamped(heads={"others": rival, "previous": PREVIOUS})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The run `measured`, which trained under an edit, and two runs that use its heads.

    These two, `clamped` and `rival`, are members of one program.
    """
    folder = tmp_path_factory.mktemp("runs")
    own = "Scale('blocks.*.attn.scores', 4.0, head=[1, 2])"
    icl.run_experiment(small(edits=(own,)), folder / "measured")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        icl.run_experiments(members(), ["clamped", "rival"])
    return folder


@pytest.fixture
def folder(runs, tmp_path, monkeypatch):
    """A copy of the runs; the working directory."""
    shutil.copytree(runs, tmp_path / "runs")
    config = unsealed(tmp_path / "runs/clamped") / "config.json"
    config.write_text(config.read_text().replace(str(runs), str(tmp_path / "runs")))
    monkeypatch.chdir(tmp_path / "runs")
    return tmp_path / "runs"


def strengths(checkpoint, edited=True):
    """Layer 1's induction and layer 0's previous-token strength, by definition."""
    trained = icl.load("measured", checkpoint)
    batch = trained.evaluations["train"]
    _, at = opto.run(
        trained.model,
        *trained.task.inputs(batch),
        record="blocks.*.attn.pattern",
        edits=trained.edits if edited else (),
    )
    first, second = (np.asarray(at[f"blocks.{k}.attn.pattern"], float) for k in (0, 1))
    labels = np.asarray(batch.labels)
    sign = np.where(labels[:, :2] == labels[:, 2:], 1, -1)
    strength = np.einsum("nhk,nk->h", second[:, :, 4, [1, 3]], sign) / len(labels)
    previous = (first[:, :, 1, 0] + first[:, :, 3, 2]).mean(0) / 2
    return strength, previous


def test_heads_are_those_of_the_definition(folder):
    found = icl.load("clamped").heads
    strength, previous = strengths(64)[0], strengths(0)[1]
    np.testing.assert_allclose(found["others"].strengths, strength, atol=1e-6)
    np.testing.assert_allclose(found["previous"].strengths, previous, atol=1e-6)
    assert found["others"].heads == tuple(np.argsort(strength)[::-1][1:])
    assert found["previous"].heads == (np.argmax(previous),)
    # The strengths do depend on that run's training edits and on the checkpoint.
    assert np.abs(strengths(64, edited=False)[0] - strength).max() > 1e-3
    assert np.abs(strengths(64)[1] - previous).max() > 1e-6


def test_the_edits_are_of_these_heads(folder):
    trained = icl.load("clamped")
    heads = {name: found.heads for name, found in trained.heads.items()}
    assert [*map(repr, trained.edits)] == [
        f"Zero('blocks.1.attn.z', head={[*heads['others']]})",
        "Pattern(PreviousToken(weight=1.0), site='blocks.0.attn.pattern', "
        f"head={heads['previous'][0]})",
    ]
    assert trained.experiment.edits == EDITS
    path = str(folder / "measured")
    assert trained.experiment.heads == {
        "others": dataclasses.replace(OTHERS, run=path, checkpoint=64),
        "previous": dataclasses.replace(PREVIOUS, run=path),
    }
    assert trained.experiment.sources() == [(path, 64), (path, 0)]


# It was a member of two; alone, several devices share it.
@pytest.mark.filterwarnings("ignore:.*was begun with devices")
def test_what_was_found_is_kept(folder):
    """A run keeps its heads, even if the other run is gone or has changed."""
    file = folder / "clamped/heads.json"
    kept = json.loads(file.read_text())
    kept["others"]["heads"] = [0, 1, 2]
    file.write_text(json.dumps(kept))
    shutil.rmtree("measured")
    expected = "Zero('blocks.1.attn.z', head=[0, 1, 2])"
    assert repr(icl.load("clamped").edits[0]) == expected
    for leftover in (folder / "clamped/resume").glob("*64.eqx"):
        leftover.unlink()
    experiment = icl.load("clamped").experiment
    (result,) = icl.run_experiments([experiment], ["clamped"], resume=True)
    assert len(result.log.train["loss"]) == 2
    assert json.loads(file.read_text()) == kept
    file.unlink()
    with pytest.raises(
        ValueError, match="heads 'others', of .*measured: there is no such run"
    ):
        icl.load("clamped")


def test_a_damaged_record_is_said(folder):
    file = folder / "clamped/heads.json"
    file.write_text('{"others": {"heads": [1]}}')
    with pytest.raises(ValueError, match="heads.json is damaged: .*lacks .*strengths"):
        icl.load("clamped")
    file.write_text('{"others": {"heads": [1], "strengths": []}}')
    with pytest.raises(ValueError, match="heads.json belongs to another config"):
        icl.load("clamped")


def test_members_with_different_heads(folder):
    """They share one program, and each has its own heads."""
    first, second = members()
    assert program(first, {}) == program(second, {})
    fewer = {"others": dataclasses.replace(OTHERS, ranks=(1,)), "previous": PREVIOUS}
    assert program(first, {}) != program(clamped(heads=fewer), {})
    order = np.argsort(strengths(64)[0])[::-1]
    assert icl.load("clamped").heads["others"].heads == tuple(order[[1, 2, 3]])
    assert icl.load("rival").heads["others"].heads == tuple(order[[0, 1, 3]])
    logs = [icl.load(name).run.log for name in ("clamped", "rival")]
    ours, theirs = (log.train["loss"] for log in logs)
    assert np.abs(ours - theirs).max() > 1e-6


ERRORS = {
    "name": ({"edits": ("Zero('**.z', head={othres})",)}, "did you mean 'others'"),
    "unused": ({"edits": EDITS[:1]}, "'previous', which no edit names as {previous}"),
    "run": ({"run": "nowhere"}, "nowhere is not a run folder"),
    "checkpoint": ({"checkpoint": 7}, "measured has no checkpoint 7"),
    "layer": ({"layer": 2}, "layer must be below 2, got 2"),
    "rank": ({"ranks": (0, 4)}, "ranks must be between -4 and 3, .* got 4"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_cannot_be_is_said(folder, name):
    changes, message = ERRORS[name]
    if not changes.keys() & {"edits", "heads"}:
        others = dataclasses.replace(OTHERS, **changes)
        changes = {"heads": {"others": others, "previous": PREVIOUS}}
    with pytest.raises(ValueError, match=message) as caught:
        icl.run_experiment(clamped(**changes), "new")
    assert "\n" not in str(caught.value)
    assert not (folder / "new").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"measure": "induction"}, "did you mean 'induction_strength'"),
        ({"layer": -1}, "layer must be 0 or more, got -1"),
        ({"ranks": (1, 1)}, "each once, got"),
    ],
)
def test_what_no_heads_can_be(changes, message):
    written = to_json(clamped())
    written["heads"]["others"] |= changes
    with pytest.raises(ValueError, match=message):
        from_json(icl.Experiment, written)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Zero('a', head={x})", ["x"]),
        (" Graft('r', edits=[Zero('a', head={x}), Zero('b',\n head={y})])", ["x", "y"]),
        ("Zero('a', head=[{x}, {x}])", ["x"]),
        ("Zero('{x}', head={1: {2}, 'y': {}})", []),
        ("Zero('a', head={x}", []),
    ],
)
def test_names_in_texts(text, found):
    assert names(text) == found
    values = {name: k for k, name in enumerate(found, 3)}
    done = filled(text, values)
    assert done == text if not found else names(done) == []
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    assert done.split() == text.split()


def test_grafts_keep_the_names(folder):
    text = "Graft('measured', until=0, edits=[Zero('blocks.0.attn.z', head={others})])"
    experiment = small(edits=(text,), heads={"others": OTHERS})
    path = str(folder / "measured")
    assert experiment.sources() == [("measured", -1)]
    assert experiment.pinned().edits == (
        f"Graft(model={path!r}, until=0, checkpoint=64, "
        "edits=[Zero('blocks.0.attn.z', head={others})])",
    )
    (graft,) = experiment.build().edits
    heads = icl.load("clamped").heads["others"].heads
    assert isinstance(graft, opto.Graft)
    assert repr(graft.edits[-1]) == f"Zero('blocks.0.attn.z', head={[*heads]})"


def test_configs_of_before(folder):
    """Configs without the field `heads` are read, and their runs resume."""
    file = unsealed(folder / "measured") / "config.json"
    config = json.loads(file.read_text())
    assert config.pop("heads") == {}
    file.write_text(json.dumps(config))
    experiment = icl.load("measured").experiment
    assert experiment.heads == {}
    assert changed(config, experiment) == []
    icl.run_experiment(experiment, "measured", resume=True)
    (line,) = changed(config, dataclasses.replace(experiment, init_seed=77))
    assert line.startswith("init_seed: ")
    assert line.endswith(" there, 77 here")
