"""`icl ablate`, `icl patch`, `icl sites` and `icl import` on small runs."""

import csv
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from commands import call, check_refused
from PIL import Image
from small import small

import icl
import opto
from icl.edits.patching import resampled
from icl.experiments import evaluate
from icl.models import TransformerConfig
from icl.plots import bars, change_maps, recovered_maps
from icl.tasks.exemplar_label import labels_swapped, query_logit_difference, Sequence


THEIRS = Path(__file__).resolve().parents[2] / "shared/data/icl_dynamics"
TRAINED_UNDER = "Scale('blocks.0.attn.z', factor=3.0, head=2)"
Z = "blocks.*.attn.z"
# A test may set the head that the training's edit scales.
pytestmark = pytest.mark.filterwarnings("ignore::opto.NoEffectWarning")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "small"
    experiment = small(
        edits=(TRAINED_UNDER,),
        model=TransformerConfig(d_model=16, num_heads=(4, 2), mlp_ratio=1.0),
    )
    icl.run_experiment(experiment, folder)
    return folder


@pytest.fixture(scope="module")
def trained(run):
    return icl.load(run)


def read(file):
    """Reads the rows of a CSV table."""
    with open(file, newline="") as stream:
        return list(csv.DictReader(stream))


def means(trained, name, *edits, training_edits=True):
    own = trained.edits if training_edits else ()
    batch = trained.evaluations[name]
    rows = evaluate(trained.model, trained.task, batch, edits=[*own, *edits])
    return {metric: float(x.mean()) for metric, x in rows.items()}


def check_picture(file):
    pixels = np.asarray(Image.open(file).convert("L"))
    assert 0.01 < np.mean(pixels < 200) < 0.9
    assert Path(file).with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def close(text, expected):
    if np.isinf(expected):
        assert float(text) == expected
    else:
        assert float(text) == pytest.approx(expected, abs=2e-5, nan_ok=True)


# Ablation.


def test_ablate_all_heads(capsys, run, trained):
    status, out, _ = call(capsys, "ablate", run)
    assert status == 0
    rows = read(run / "ablate/heads.csv")
    metrics = means(trained, "train")
    assert len(rows) == 2 * len(metrics) * (4 + 2 + 1)
    heads = {(row["layer"], row["head"]) for row in rows}
    pairs = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]
    assert heads == {(str(a), str(b)) for a, b in pairs} | {("all", "all")}
    ablations = {
        ("0", "2"): opto.Zero(Z, heads="0:2"),
        ("1", "1"): opto.Zero(Z, layer=1, head=1),
        ("all", "all"): opto.Zero(Z),
    }
    for row in rows:
        key = row["layer"], row["head"]
        if key in ablations:
            base = means(trained, row["set"])[row["metric"]]
            value = means(trained, row["set"], ablations[key])[row["metric"]]
            close(row["baseline"], base)
            close(row["ablated"], value)
            if np.isfinite(base):
                close(row["difference"], value - base)
    check_picture(run / "ablate/heads.png")
    # The output has the most important head first and the total last.
    loss = [x for x in rows if x["metric"] == "loss" and x["set"] == "train"]
    best = max(loss[:-1], key=lambda row: abs(float(row["difference"])))
    lines = out.splitlines()
    assert lines[0] == f"train: 20 sequences, {Z} ablated (zero)"
    assert lines[3].split()[0] == f"{best['layer']}:{best['head']}"
    assert lines[3].split()[-1] == f"{float(best['difference']):+.4f}"
    assert lines[8].startswith("  all 6 together")


@pytest.mark.parametrize("kind", ["mean", "resample"])
def test_ablate_to_what_other_sequences_have(capsys, run, trained, tmp_path, kind):
    out = tmp_path / "new/folder"
    options = ["--heads", "1:1 0:2", "--ablation", kind, "--on", "train"]
    edit = "Zero('blocks.0.attn.z', head=0)"
    status, _, _ = call(capsys, "ablate", run, *options, "--edit", edit, "--out", out)
    assert status == 0
    rows = {(r["layer"], r["head"], r["metric"]): r for r in read(out / "heads.csv")}
    assert {key[:2] for key in rows} == {("1", "1"), ("0", "2"), ("all", "all")}
    fixed = opto.parse(edit)
    inputs = trained.task.inputs(trained.evaluations["train"])
    _, record = opto.run(
        trained.model, *inputs, record=Z, edits=[*trained.edits, fixed]
    )
    make = {"mean": opto.Mean, "resample": opto.Resample}[kind]
    for key, heads in {("0", "2"): "0:2", ("all", "all"): "0:2 1:1"}.items():
        # The run's own edit is at head 0:2, and this test overwrites that head.
        edits = (fixed, make(Z, record, heads=heads))
        outputs, _ = opto.run(trained.model, *inputs, edits=edits)
        labels = np.asarray(inputs[1])[:, -1]
        right = np.argmax(np.asarray(outputs)[:, -1], -1) == labels
        close(rows[*key, "accuracy"]["ablated"], right.mean())
        logits = np.asarray(outputs, np.float64)[:, -1]
        loss = np.log(np.exp(logits).sum(-1)) - logits[np.arange(20), labels]
        close(rows[*key, "loss"]["ablated"], loss.mean())
        close(rows[*key, "loss"]["baseline"], means(trained, "train", fixed)["loss"])
    check_picture(out / "heads.png")


def test_ablate_without_the_edits_of_training(capsys, run, trained, tmp_path):
    options = "--heads", "1:0", "--on", "train", "--out", tmp_path
    arguments = ["ablate", run, *options, "--no-training-edits", "--checkpoint", 0]
    assert call(capsys, *arguments)[0] == 0
    first = icl.load(run, 0)
    bare = means(first, "train", training_edits=False)
    assert bare["loss"] != pytest.approx(means(first, "train")["loss"], abs=1e-4)
    for row in read(tmp_path / "heads.csv"):
        close(row["baseline"], bare[row["metric"]])


def test_another_site_and_a_head_named_twice(capsys, run, trained, tmp_path):
    options = ["--site", "blocks.1.attn.pattern", "--heads", "1:1 1:1 1:-2"]
    assert call(capsys, "ablate", run, *options, "--out", tmp_path)[0] == 0
    rows = read(tmp_path / "heads.csv")
    row = next(r for r in rows if r["metric"] == "loss" and r["layer"] == "all")
    edit = opto.Zero("blocks.1.attn.pattern")
    close(row["ablated"], means(trained, row["set"], edit)["loss"])
    assert {r["head"] for r in rows} == {"0", "1", "all"}


# Patching.


def by_hand(trained, corrupted, edit):
    """The mean logit difference under an edit, in NumPy."""
    return np.mean(each_by_hand(trained, corrupted, edit))


def each_by_hand(trained, corrupted, edit):
    batch = trained.evaluations["train"]
    inputs = trained.task.inputs(corrupted)
    edits = [*trained.edits, *([] if edit is None else [edit])]
    logits = np.asarray(opto.run(trained.model, *inputs, edits=edits)[0])[:, -1]
    total = []
    for row, labels in zip(logits, np.asarray(batch.labels), strict=True):
        others = [row[label] for label in labels[:-1] if label != labels[-1]]
        total.append(row[labels[-1]] - max(others))
    return np.array(total)


CORRUPTIONS = {"labels-swapped": labels_swapped, "resample": resampled}


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_patch(capsys, run, trained, tmp_path, kind):
    options = ["--over", "layer", "pos", "--corruption", kind]
    options += ["--on", "train", "--out", tmp_path]
    status, out, _ = call(capsys, "patch", run, *options)
    assert status == 0
    rows = read(tmp_path / "patch.csv")
    assert [(r["layer"], r["pos"]) for r in rows] == [
        (str(layer), str(pos)) for layer in range(2) for pos in range(5)
    ]
    batch = trained.evaluations["train"]
    corrupted = CORRUPTIONS[kind](batch)
    _, record = opto.run(
        trained.model,
        *trained.task.inputs(batch),
        record="blocks.*.resid_pre",
        edits=trained.edits,
    )
    ends = by_hand(trained, corrupted, None), by_hand(trained, batch, None)
    for row in rows[::3]:
        place = {"layer": int(row["layer"]), "pos": int(row["pos"])}
        value = by_hand(
            trained, corrupted, opto.Patch("blocks.*.resid_pre", record, **place)
        )
        close(row["patched"], value)
        close(row["corrupted"], ends[0])
        close(row["clean"], ends[1])
        share = (value - ends[0]) / (ends[1] - ends[0])
        assert float(row["recovered"]) == pytest.approx(share, abs=2e-3)
    check_picture(tmp_path / "patch.png")
    best = max(rows, key=lambda row: abs(float(row["recovered"])))
    first = out.splitlines()[3].split()
    assert first[0] == best["layer"]
    assert first[-1] == f"{float(best['recovered']):.3f}"
    assert "query" in out


def test_patching_by_what_tokens_are_to_the_answer(capsys, run, trained, tmp_path):
    options = ["--on", "train", "--corruption", "resample", "--out", tmp_path]
    status, out, _ = call(capsys, "patch", run, *options)
    assert status == 0
    assert "right label" in out
    rows = read(tmp_path / "patch.csv")
    tokens = [f"{part} {role}" for part in ("other", "right") for role in ROLES]
    assert [r["token"] for r in rows] == sorted([*tokens, "query"]) * 2
    batch = trained.evaluations["train"]
    corrupted, labels = resampled(batch), np.asarray(batch.labels)
    _, record = opto.run(
        trained.model,
        *trained.task.inputs(batch),
        record="blocks.*.resid_pre",
        edits=trained.edits,
    )
    at = {}
    for layer in range(2):
        edits = (
            opto.Patch("blocks.*.resid_pre", record, layer=layer, pos=pos)
            for pos in range(5)
        )
        at[layer] = np.stack([each_by_hand(trained, corrupted, edit) for edit in edits])
    # Of the two pairs, the right one is that whose label is the query's.
    right = (labels[:, 1] == labels[:, 2]).astype(int)
    place = {
        "query": np.full(len(labels), 4),
        **{f"right {role}": 2 * right + k for k, role in enumerate(ROLES)},
        **{f"other {role}": 2 * (1 - right) + k for k, role in enumerate(ROLES)},
    }
    for row in rows:
        every = at[int(row["layer"])]
        value = every[place[row["token"]], np.arange(len(labels))].mean()
        close(row["patched"], value)


ROLES = ("exemplar", "label")


def test_patching_what_makes_all_of_the_difference_gives_the_clean_run(
    capsys, run, tmp_path
):
    """Patches a layer's whole stream, or the query's stream after the last layer."""
    options = ["--site", "blocks.*.resid_post", "--out", tmp_path]
    assert call(capsys, "patch", run, *options)[0] == 0
    for row in read(tmp_path / "patch.csv"):
        if row["layer"] == "1":
            expected = 1.0 if row["token"] == "query" else 0.0
            assert float(row["recovered"]) == pytest.approx(expected, abs=1e-3)
    arguments = ["--over", "layer", "--site", "blocks.*.resid_pre", "--out", tmp_path]
    assert call(capsys, "patch", run, *arguments)[0] == 0
    rows = read(tmp_path / "patch.csv")
    assert list(rows[0]) == [
        "set",
        "layer",
        "patched",
        "corrupted",
        "clean",
        "recovered",
    ]
    for row in rows:
        assert float(row["recovered"]) == pytest.approx(1.0, abs=1e-3)


def test_patching_heads_that_not_all_layers_have(capsys, run, tmp_path):
    options = ["--site", Z, "--over", "layer", "head", "pos", "--out", tmp_path]
    assert call(capsys, "patch", run, *options, "--on", "train")[0] == 0
    rows = read(tmp_path / "patch.csv")
    assert len(rows) == (4 + 2) * 5
    check_picture(tmp_path / "patch.png")


def sequences(*labels):
    labels = jnp.asarray(labels, jnp.int32)
    examples = jnp.arange(labels.size, dtype=float).reshape(*labels.shape, 1)
    return Sequence(examples, labels, jnp.zeros_like(labels))


def test_swapped_labels():
    batch = sequences([3, 1, 3], [1, 3, 3], [4, 4, 2])
    with pytest.raises(ValueError, match="in 1 of 3 sequences"):
        labels_swapped(batch)
    batch = sequences([0, 2, 3, 2, 2], [2, 1, 2, 1, 2], [4, 4, 0, 3, 0])
    swapped = labels_swapped(batch)
    expected = [[2, 0, 3, 0, 0], [1, 2, 1, 2, 1], [0, 0, 4, 3, 4]]
    np.testing.assert_array_equal(swapped.labels, expected)
    np.testing.assert_array_equal(swapped.examples, batch.examples)
    np.testing.assert_array_equal(labels_swapped(swapped).labels, batch.labels)
    with pytest.raises(ValueError, match="another label, but has none, in 2 of 2 seq"):
        labels_swapped(sequences([1, 1, 1], [2, 2, 2]))


def test_other_sequences():
    batch = sequences([0, 1, 0], [2, 3, 3], [4, 1, 1])
    moved = resampled(batch)
    np.testing.assert_array_equal(moved.labels, batch.labels[jnp.array([2, 0, 1])])
    np.testing.assert_array_equal(moved.examples, batch.examples[jnp.array([2, 0, 1])])
    with pytest.raises(ValueError, match="two or more sequences, got 1"):
        resampled(sequences([0, 1, 0]))


def test_the_logit_difference():
    logits = jnp.array([[1.0, 5.0, 2.0, 9.0], [0.0, 1.0, 2.0, 3.0]])
    labels = jnp.array([[0, 2, 1, 1], [3, 3, 0, 0]])
    # 5 minus the larger of 1 and 2; 0 minus 3. The largest logit is in no context.
    assert query_logit_difference(logits[0], labels[0]) == pytest.approx(3)
    assert query_logit_difference(logits[1], labels[1]) == pytest.approx(-3)
    assert jnp.isnan(query_logit_difference(logits[0], jnp.array([1, 1, 1, 1])))


# Where results go.


def test_results_are_written_over_and_nothing_else_is(capsys, run, tmp_path):
    options = ["ablate", run, "--heads", "0:0", "--on", "train", "--out"]
    assert call(capsys, *options, tmp_path / "a")[0] == 0
    first = (tmp_path / "a/heads.csv").read_text()
    assert call(capsys, *options, tmp_path / "a", "--checkpoint", 0)[0] == 0
    assert (tmp_path / "a/heads.csv").read_text() != first
    for name in ("heads.csv", "heads.pdf"):
        folder = tmp_path / name.replace(".", "_")
        folder.mkdir()
        (folder / name).write_text("mine\n")
        check_refused(capsys, [*options, folder], f"{folder / name} is in the way")
        assert [file.name for file in folder.iterdir()] == [name]
        assert (folder / name).read_text() == "mine\n"


HEADS = "ablate", "{run}", "--heads"
REFUSED = [
    (["ablate", "{tmp}"], "is not a run folder"),
    ([*HEADS, "1:3"], "head 3 is out of range at blocks.1.attn.z"),
    ([*HEADS, "2:0"], "layer 2 is out of range: the sites are in layers [0, 1]"),
    ([*HEADS, "one"], "heads must be layer:head pairs such as '1:3', got 'one'"),
    (["ablate", "{run}", "--on", "trian"], "no evaluation set 'trian'; did you mean"),
    (["ablate", "{run}", "--site", "blocks.*.atn.z"], "; did you mean 'blocks.*.attn"),
    (["ablate", "{run}", "--site", "blocks.*.resid_pre"], "must have an axis 'head'"),
    (["ablate", "{run}", "--edit", "Zero('**.z', head=7)"], "head 7 is out of range"),
    (["ablate", "{run}", "--out", "{run}/config.json"], "is a file; name a folder"),
    (["patch", "{run}", "--over", "layer", "seqs"], "no axis 'seqs'; did you mean"),
    (["patch", "{run}", "--over"], "over names one to three axes, got 0"),
    (["patch", "{run}", "--corruption", "labels"], "no corruption"),
    (["patch", "{run}", "--edit", "Zero('blocks.*.attn.out')"], "nothing to patch"),
    (["eval", "{run}", "--edit", "Graft('{tmp}/none', until=0)"], "no such run folder"),
    (["import", "{tmp}", "--out", "{tmp}/out"], "config.json"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_bad_input(capsys, arguments, message, run, tmp_path):
    given = [x.format(tmp=tmp_path, run=run) for x in arguments]
    if given[0] in ("ablate", "patch") and "--out" not in given:
        given += ["--out", str(tmp_path / "out")]
    check_refused(capsys, given, message)
    assert not list(tmp_path.iterdir())  # No files are left.


# The other commands.


def test_sites_are_a_table(capsys, run, trained):
    status, out, _ = call(capsys, "sites", run)
    assert status == 0
    header, *lines = out.splitlines()
    assert header.split() == ["site", "dtype", "axes"]
    table = opto.sites(trained.model, *trained.task.interface.structs)
    rows = [f"{x.name} {x.dtype} {x.dims[1:-1]}" for x in table.values()]
    assert [" ".join(line.split()) for line in lines] == rows
    assert "head=2 seq=5 kv_seq=5" in out


def test_eval_under_a_graft(capsys, run, trained):
    """Grafts the first layer of the run's first checkpoint, with the run's edit."""
    text = f"Graft({str(run)!r}, until=0, checkpoint=0)"
    status, out, _ = call(capsys, "eval", run, "--edit", text, "--no-training-edits")
    assert status == 0
    first = icl.load(run, 0)
    graft = opto.Graft(first.model, until=0, edits=first.edits)
    expected = means(trained, "train", graft, training_edits=False)
    lines = [line.split() for line in out.splitlines()]
    column = 1 + lines[0].index("train")
    (row,) = (line for line in lines if line[0] == "loss")
    assert float(row[column]) == pytest.approx(expected["loss"], abs=1e-4)
    plain = means(trained, "train", training_edits=False)
    assert abs(plain["loss"] - expected["loss"]) > 1e-3


@pytest.mark.skipif(not THEIRS.exists(), reason=f"{THEIRS} is absent")
def test_an_imported_run(capsys, tmp_path):
    out = tmp_path / "run"
    data = "--data", THEIRS / "classes.h5"
    status, text, _ = call(capsys, "import", THEIRS / "run", "--out", out, *data)
    assert status == 0
    assert text.startswith(f"{out}: 3 checkpoints, 3 evaluations\n")
    assert "note: evaluation sets drawn anew" in text
    status, _, err = call(capsys, "import", THEIRS / "run", "--out", out, *data)
    assert status == 2
    assert "exists and is not overwritten" in err

    assert "blocks.1.attn.pattern" in call(capsys, "sites", out)[1]
    evaluated = call(capsys, "eval", out)[1]
    loss = next(x.split()[1] for x in evaluated.splitlines() if x.startswith("loss"))
    assert float(loss) < 0.1  # The run has learned.
    assert call(capsys, "ablate", out)[0] == 0
    rows = [r for r in read(out / "ablate/heads.csv") if r["metric"] == "loss"]
    assert len(rows) == 17
    assert float(rows[0]["baseline"]) == pytest.approx(float(loss), abs=1e-3)
    assert float(rows[-1]["difference"]) > 1  # Without heads the model fails.
    assert call(capsys, "patch", out)[0] == 0
    # The right label in the context decides the answer.
    for row in read(out / "patch/patch.csv"):
        expected = 1.0 if row["token"] == "right label" else 0.0
        assert float(row["recovered"]) == pytest.approx(expected, abs=0.1)


# Figures.


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_maps_of_changes_show_each_number():
    values = np.array([[0.001, -0.5, np.nan], [0.25, 0.0, 1.25]])
    changes = {"change in x": {"a_b": values}, "change in y": {"a_b": -values}}
    together = {name: {"a_b": -0.75} for name in changes}
    fig = change_maps(changes, together, colours=dict.fromkeys(changes, "RdBu"))
    left, right, *bars = fig.axes
    assert texts(left) == ["0", "−.50", "+.25", "0", "+1.25"]
    assert texts(right) == ["0", "+.50", "−.25", "0", "−1.25"]
    assert left.get_title() == "a b (all together −0.75)"
    assert (left.get_ylabel(), left.get_xlabel()) == ("layer", "head")
    assert [bar.get_ylabel() for bar in bars] == list(changes)


def test_changes_that_are_undefined_say_so():
    undefined = {"change in x": {"a": np.full((1, 2), np.nan)}}
    together = {"change in x": {"a": np.nan}}
    fig = change_maps(undefined, together, colours={"change in x": "RdBu"})
    ax = fig.axes[0]
    assert ax.get_title() == "change in x\na (all together undefined)"
    assert fig.axes == [ax]  # Empty data has no colour scale.


def test_bars_of_changes():
    changes = {"change": {"a": np.array([0.5, -1.0]), "b": np.array([0.25, 0.0])}}
    fig = bars(changes, ["0:3", "all"], line=0.0)
    (ax,) = fig.axes
    assert [bar.get_height() for bar in ax.patches] == [0.5, -1.0, 0.25, 0.0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0:3", "all"]
    fig.draw_without_rendering()
    assert fig.legends[0].get_window_extent().x0 >= ax.get_window_extent().x1


@pytest.mark.parametrize("axes", [["pos"], ["layer", "pos"], ["pos", "layer", "head"]])
def test_maps_of_sets_of_several_lengths(axes):
    sizes = {"short": 3, "long": 5}
    shapes = {
        name: [length if axis == "pos" else 2 for axis in axes]
        for name, length in sizes.items()
    }
    values = {name: np.arange(np.prod(s)).reshape(s) for name, s in shapes.items()}
    ticks = {n: [[f"t{i}" for i in range(k)] for k in s] for n, s in shapes.items()}
    fig = recovered_maps(values, axes, ticks, label="share")
    *maps, bar = fig.axes
    assert bar.get_ylabel() == "share"
    found = {ax.get_title().split(",")[0] for ax in maps}
    assert found == {"short", "long"}
    assert len(maps) == (8 if axes[0] == "pos" and len(axes) == 3 else 2)
    for name in sizes:
        drawn = [ax for ax in maps if ax.get_title().startswith(name)]
        shown = np.stack([ax.images[0].get_array() for ax in drawn])
        np.testing.assert_array_equal(shown.ravel(), values[name].ravel())
        names = [label.get_text() for label in drawn[0].get_xticklabels()]
        assert names == ticks[name][-1]
    fig.draw_without_rendering()
