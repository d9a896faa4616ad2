"""Grafts that name a run's folder, or a checkpoint file of icl-dynamics."""

import dataclasses
import json
import shutil
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest
from older import unsealed

import icl
import opto
from icl.compat.icl_dynamics import load_run
from icl.data import LowRankClasses
from icl.edits import CopyFromPattern
from icl.edits.grafts import loaded, pinned, read_edits
from icl.edits.ranked import measured_heads, RankedHeads
from icl.experiments import evaluate, Start
from icl.presets.induction import induction
from icl.runs import Run, RunWriter
from icl.training import Training
from icl.training.schedules import Every


THEIRS = Path(__file__).resolve().parents[2] / "shared/data/icl_dynamics/run"
needs_data = pytest.mark.skipif(not THEIRS.exists(), reason=f"{THEIRS} is absent")

OWN = "Scale('blocks.0.attn.z', factor=0.5, head=2)", "Zero('**.v', head=5, layer=1)"


def small(**changes):
    """The main run with two steps."""
    base = induction(LowRankClasses(num_classes=60, num_exemplars=3, dim=16))
    sets = {"train": dataclasses.replace(base.evaluations["train"], size=20)}
    training = Training(64, 32, None, Every(64), Every(32))
    changes = {"evaluations": sets, "training": training, **changes}
    return dataclasses.replace(base, **changes)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with two runs: `plain`, and `edited`, which trained under an edit."""
    folder = tmp_path_factory.mktemp("runs")
    experiments = small(), small(init_seed=9, edits=OWN)
    for name, experiment in zip(("plain", "edited"), experiments, strict=True):
        icl.run_experiment(experiment, folder / name)
    return folder


@pytest.fixture
def folder(runs, tmp_path, monkeypatch):
    """A copy of the runs; the working directory."""
    shutil.copytree(runs, tmp_path / "runs")
    monkeypatch.chdir(tmp_path / "runs")
    return tmp_path / "runs"


def logits(trained, *edits):
    inputs = trained.task.inputs(trained.evaluations["train"])
    return np.asarray(opto.run(trained.model, *inputs, edits=edits)[0])


@pytest.mark.parametrize("side", [{"until": 0}, {"from_": 1}])
@pytest.mark.parametrize("checkpoint", [-1, 0])
def test_a_folder_is_its_model_under_its_own_edits(folder, side, checkpoint):
    trained, other = icl.load("plain"), icl.load("edited", checkpoint)
    extra = opto.Zero(f"blocks.{0 if 'until' in side else 1}.attn.z", head=1)
    named = opto.Graft("edited", checkpoint=checkpoint, edits=[extra], **side)
    # One of its two edits is in a layer that the graft does not use.
    own = other.edits[:1] if "until" in side else other.edits[1:]
    expected = logits(trained, opto.Graft(other.model, edits=[*own, extra], **side))
    np.testing.assert_array_equal(logits(trained, *loaded([named])), expected)
    bare = opto.Graft(other.model, edits=[extra], **side)
    for without in (logits(trained, bare), logits(trained)):
        assert np.abs(expected - without).max() > 1e-4


def test_the_text_of_a_loaded_graft_loads_the_same(folder):
    """The run's own edits are not added twice."""
    once = read_edits(["Graft('edited', until=0, edits=[Zero('tok_embed', pos=0)])"])
    again = read_edits(map(repr, once))
    assert repr(once[0]) == repr(again[0])
    edits = ", ".join([*OWN, "Zero('tok_embed', seq=0)"])
    assert repr(once[0]) == f"Graft(model='edited', until=0, edits=[{edits}])"
    trained = icl.load("plain")
    np.testing.assert_array_equal(logits(trained, *once), logits(trained, *again))
    weights = (graft.model.unembed.weight for graft in (*loaded(once), *once))
    assert next(weights) is next(weights)  # Loaded once, not read again.


def test_grafts_within_other_edits(folder):
    """In the edits of a graft or of a copy, at any depth."""
    trained, other = icl.load("plain"), icl.load("edited", 0)
    copy = CopyFromPattern(heads="1:3", edits=[opto.Graft("edited", until=0)])
    (read,) = loaded([copy])
    assert read.edits[0].model is not None
    own = icl.load("edited")
    graft = opto.Graft(own.model, until=0, edits=own.edits[:1])
    expected = logits(trained, CopyFromPattern(heads="1:3", edits=[graft]))
    np.testing.assert_array_equal(logits(trained, read), expected)

    text = "Graft('plain', until=0, edits=[Graft('edited', until=-1, checkpoint=0)])"
    (read,) = read_edits([text])
    # Its own edits are in layers that the graft does not use.
    inner = opto.Graft(other.model, until=-1)
    plain = icl.load("plain")
    expected = logits(own, opto.Graft(plain.model, until=0, edits=[inner]))
    np.testing.assert_array_equal(logits(own, read), expected)
    assert "Graft(model='edited', until=-1, checkpoint=0" in repr(read)


def test_training_under_a_graft(folder, tmp_path, monkeypatch):
    """Its config names the exact checkpoint, from any working directory."""
    text = "Graft('plain', until=0)"
    icl.run_experiment(small(init_seed=4, edits=(text, OWN[1])), "new")
    monkeypatch.chdir(tmp_path)
    trained = icl.load("runs/new")
    path = folder / "plain"
    assert trained.experiment.edits == (
        f"Graft(model={str(path)!r}, until=0, checkpoint=64)",
        OWN[1],
    )
    first = small(init_seed=4).build().model
    moved = [
        float(np.abs(a - b).max())
        for a, b in zip(
            (first.blocks[0].attn.value.weight, first.blocks[1].attn.value.weight),
            [b.attn.value.weight for b in trained.model.blocks],
            strict=True,
        )
    ]
    assert moved[0] == 0 < moved[1]  # The replaced layers learn nothing.
    loss = trained.run.log.evaluations["train"]["loss"][-1]
    batch = trained.evaluations["train"]
    rows = evaluate(trained.model, trained.task, batch, edits=trained.edits)
    np.testing.assert_allclose(rows["loss"], loss, rtol=1e-5)


@pytest.fixture
def growing(folder, monkeypatch):
    """Lists the last checkpoint of `plain` at each request for it.

    After each answer, `plain` gets one more checkpoint, with other weights.
    """
    find, answers = Run.find, []

    def find_and_go_on(run, checkpoint):
        found = find(run, checkpoint)
        if checkpoint == -1 and run.path.name == "plain":
            answers.append(found)
            weights, rest = eqx.partition(icl.load(run.path, found).model, eqx.is_array)
            larger = eqx.combine(jax.tree.map(lambda x: 1.5 * x, weights), rest)
            RunWriter(run.path).save_checkpoint(found + 32, larger)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Run, "find", find_and_go_on)
        yield answers


def test_the_config_names_the_checkpoint_that_was_read(folder, growing):
    """Even if the other run goes on while this one begins."""
    experiment = small(
        start=Start("plain"),
        edits=("Graft('plain', until=0)", "Zero('blocks.1.attn.z', head={top})"),
        heads={"top": RankedHeads("plain", "previous_token", 1)},
    )
    # It starts from the weights that it grafts.
    with pytest.warns(opto.NoEffectWarning, match="on the first batch of training"):
        icl.run_experiment(experiment, "new")
    assert growing == [64]  # Only once.
    first = icl.load("new", 0)
    stored = first.experiment
    graft = f"Graft(model={str(folder / 'plain')!r}, until=0, checkpoint=64)"
    assert stored.edits[0] == graft
    assert (stored.start.checkpoint, stored.heads["top"].checkpoint) == (64, 64)
    # Weights, graft and heads were all read from this checkpoint.
    assert eqx.tree_equal(first.model, icl.load("plain", 64).model)
    batch, logged = first.evaluations["train"], first.run.log.evaluations["train"]
    rows = evaluate(first.model, first.task, batch, edits=first.edits)
    np.testing.assert_allclose(rows["loss"], logged["loss"][0], rtol=1e-5)
    assert first.heads == measured_heads(stored.heads)


def test_only_texts_of_grafts_are_rewritten(folder):
    texts = "Zero( 'blocks.0.attn.z',head=1 )", "Graft('plain', from_=1, checkpoint=0)"
    path = str(folder / "plain")
    expected = texts[0], f"Graft(model={path!r}, from_=1, checkpoint=0)"
    assert pinned(texts) == expected
    nested = "Graft('plain', until=0, edits=[Graft('edited', until=-1)])"
    assert pinned([nested])[0].count("checkpoint=64") == 2
    assert pinned(expected) == expected


@needs_data
@pytest.mark.parametrize("path", ["", "checkpoints/00000064000.eqx"])
def test_icl_dynamics(path):
    """A graft can name its run folder or its checkpoint file."""
    model, _ = load_run(THEIRS)
    (read,) = read_edits([f"Graft({str(THEIRS / path)!r}, until=0)"])
    activations = np.load(THEIRS.parent / "activations.npz")
    inputs = activations["examples"], activations["labels"]
    host, _ = load_run(THEIRS, 0)
    results = [
        opto.run(host, *inputs, edits=[edit])[0]
        for edit in (read, opto.Graft(model, until=0))
    ]
    np.testing.assert_array_equal(*results)


@needs_data
def test_own_edits_of_icl_dynamics(tmp_path):
    """A run folder brings its edits; a checkpoint file has only the given ones."""
    shutil.copytree(THEIRS, tmp_path / "run")
    file = tmp_path / "run/config.json"
    file.chmod(0o644)
    config = json.loads(file.read_text()) | {"opto_ablate_heads": ["0:1"]}
    (tmp_path / "run").chmod(0o755)
    file.write_text(json.dumps(config))
    name = "00000064000.eqx"
    folder, single = loaded(
        opto.Graft(str(tmp_path / "run" / path), until=0)
        for path in ("", f"checkpoints/{name}")
    )
    assert list(map(repr, folder.edits)) == ["Zero('blocks.*.attn.v', heads='0:1')"]
    assert single.edits == ()


def _with_edits(folder, name, text):
    file = unsealed(folder / name) / "config.json"
    config = json.loads(file.read_text()) | {"edits": [text]}
    file.write_text(json.dumps(config))


def test_a_cycle_is_refused(folder):
    _with_edits(folder, "plain", f"Graft({str(folder / 'edited')!r}, until=0)")
    _with_edits(folder, "edited", f"Graft({str(folder / 'plain')!r}, until=0)")
    for read in (
        lambda: icl.load("plain"),
        lambda: read_edits(["Graft('plain', from_=1)"]),
    ):
        with pytest.raises(ValueError, match="a run cannot graft from itself"):
            read()
    # No state is left: a run without a cycle loads as before.
    _with_edits(folder, "plain", OWN[0])
    assert icl.load("plain").edits


ERRORS = {
    "missing": ("Graft('nowhere', until=0)", "'nowhere'): there is no such run folder"),
    "folder": ("Graft('.', until=0)", "is not a run folder: it has no config.json"),
    "file": ("Graft('plain/log.h5', until=0)", "a checkpoint file must be"),
    "ours": (
        "Graft('plain/checkpoints/000000000064.eqx', until=0)",
        "give the run's folder and checkpoint=",
    ),
    "checkpoint": ("Graft('plain', until=0, checkpoint=7)", "no checkpoint 7"),
    "layer": ("Graft('plain', until=5)", "until=5 is out of range"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_bad_paths_are_named(folder, name):
    text, message = ERRORS[name]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        small(edits=(text,)).build()
    assert message in str(caught.value)


@needs_data
def test_a_file_is_one_checkpoint():
    text = f"Graft({str(THEIRS / 'checkpoints/00000064000.eqx')!r}, until=0"
    with pytest.raises(ValueError, match="one checkpoint, but got checkpoint=0"):
        read_edits([f"{text}, checkpoint=0)"])
