"""`icl plot` and `icl report` on a small run."""

import base64
import csv
import dataclasses
import html
import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path

import jax
import numpy as np
import pytest
from commands import call, check_refused
from older import unsealed

import icl
import opto
from icl import plots
from icl.cli.plot import _stem, plot, PlotOptions
from icl.cli.report import report
from icl.presets import presets
from icl.report.figures import KINDS, learning
from icl.report.grouping import GROUPS
from icl.report.patterns import _affordable, _MOST_BYTES
from icl.report.subject import Subject
from icl.training import Training
from icl.training.schedules import Every


HOSTILE = "<script>alert('x')</script>&"


@pytest.fixture(scope="module")
def run(small_run, tmp_path_factory):
    """A run for figures, with a name that needs escaping."""
    folder = tmp_path_factory.mktemp("runs") / "a <b> & 'c'"
    return shutil.copytree(small_run, folder)


@pytest.fixture(scope="module")
def trained(run):
    return icl.load(run)


def patterns(trained, name, checkpoint):
    """The patterns `[layer][sequence, head, query, key]`, by hand."""
    model = trained.run.load(trained.model, checkpoint)
    inputs = trained.task.inputs(trained.evaluations[name])
    _, record = opto.run(model, *inputs, record="blocks.*.attn.pattern")
    return [np.asarray(record[f"blocks.{k}.attn.pattern"]) for k in range(2)]


# Figures


def test_all_kinds_are_drawn_into_the_run(capsys, run):
    status, out, _ = call(capsys, "plot", run, "all")
    assert status == 0
    folder = run / "figures"
    assert out.split("\n") == [*(str(folder / f"{kind}.png") for kind in KINDS), ""]
    files = {file.name for file in folder.iterdir()}
    assert files == {f"{kind}.{suffix}" for kind in KINDS for suffix in ("png", "h5")}


def test_the_strengths_are_those_of_the_patterns(capsys, run, trained, tmp_path):
    options = ["--on", "heldout_labels", "--format", "svg", "--out", tmp_path / "f"]
    assert call(capsys, "plot", run, "induction", "attention", *options)[0] == 0
    names = {file.name for file in (tmp_path / "f").glob("*.svg")}
    assert names == {"induction-heldout_labels.svg", "attention-heldout_labels.svg"}
    found = plots.read_drawn(tmp_path / "f/induction-heldout_labels.h5")
    labels = np.asarray(trained.evaluations["heldout_labels"].labels)
    right = labels[:, None, :2] == labels[:, None, 2:]
    for layer, heads in enumerate((4, 2)):
        mean = found[f"layer {layer}/mean"]
        assert mean.axes["sequences seen"].tolist() == trained.run.checkpoints
        assert mean.values.shape == (5, heads)
        for k, checkpoint in enumerate(trained.run.checkpoints):
            pattern = patterns(trained, "heldout_labels", checkpoint)[layer]
            to = pattern[:, :, -1, [1, 3]].astype(float)
            wanted = np.where(right, to, -to).sum(-1).mean(0)
            np.testing.assert_allclose(mean.values[k], wanted, atol=1e-6)


def _only(folder, pattern):
    (file,) = folder.glob(pattern)
    return file


def test_an_edit_is_in_force(capsys, run, tmp_path):
    uniform = "Clamp('blocks.*.attn.scores', 0.0)"
    options = ["--edit", uniform, "--out", tmp_path, "--checkpoint", 320]
    assert call(capsys, "plot", run, "maps", *options)[0] == 0
    attention = plots.read_drawn(_only(tmp_path, "maps-at-320-Clamp*.h5"))[
        "attention"
    ].values
    assert attention.shape == (2, 4, 5, 5)
    np.testing.assert_allclose(attention[0], np.full((4, 5, 5), 0.2), atol=1e-6)
    assert np.isnan(attention[1, 2:]).all()  # The layer does not have these heads.


@pytest.mark.parametrize("by", GROUPS)
def test_a_logged_metric_is_grouped(by, capsys, run, trained, tmp_path):
    options = ["--by", by, "--metric", "accuracy", "--numbers", "h5"]
    assert call(capsys, "plot", run, "metric", *options, "--out", tmp_path)[0] == 0
    found = plots.read_drawn(_only(tmp_path, "*.h5"))
    logged = trained.run.log.evaluations["train"]["accuracy"]
    np.testing.assert_array_equal(found["traces"].values, logged)
    batch = trained.evaluations["train"]
    labels, classes = np.asarray(batch.labels), np.asarray(batch.classes)
    x = np.asarray(batch.examples, float)
    cosine = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b, _ in x]
    wanted = {
        "position": np.argmax(labels[:, :2] == labels[:, 2:], 1),
        "label": labels[:, 2],
        "labels": [" ".join(map(str, sorted(row[:2]))) for row in labels.tolist()],
        "class": classes[:, 2],
        "similarity": np.array(cosine),
    }[by]
    group = found["group"].values
    if by == "similarity":
        np.testing.assert_allclose(group, wanted, rtol=1e-6)
    else:
        np.testing.assert_array_equal(group, wanted)


def test_the_dense_set_and_its_groups(capsys, run, tmp_path):
    options = ["--on", "dense", "--by", "class-pair", "--out", tmp_path]
    assert call(capsys, "plot", run, "metric", *options)[0] == 0
    found = plots.read_drawn(tmp_path / "metric-by-class-pair-dense.h5")
    assert found["mean"].axes["sequences seen"].tolist() == [0, 160, 320, 480, 640]
    assert set(found["group"].values) == set(range(100))  # Pairs, 32 sequences each.


def test_where_the_loss_falls_to_the_threshold_is_marked(capsys, run, trained):
    log = trained.run.log
    losses = log.evaluations["train"]["loss"].mean(1)
    level = float(losses[1] + losses[0]) / 2
    assert losses[1] < losses[0]
    assert call(capsys, "plot", run, "learning", "--threshold", level)[0] == 0
    mark = plots.read_drawn(run / "figures/learning.h5")["phase change"]
    assert mark.values == pytest.approx(160, rel=1e-3)  # Halfway from 0 to 320.


def test_the_mark_is_of_the_edited_model_and_of_any_data(trained):
    edits = (opto.Zero("blocks.*.attn.z"),)
    losses = []
    for checkpoint in (0, 160):
        model = trained.run.load(trained.model, checkpoint)
        batch = trained.evaluations["train"]
        logits, _ = opto.run(model, *trained.task.inputs(batch), edits=edits)
        each = jax.nn.log_softmax(logits[:, -1])[np.arange(20), batch.labels[:, -1]]
        losses.append(-float(each.mean()))
    level = sum(losses) / 2
    subject = Subject(trained, "train", edits, threshold=level)
    assert subject.phase_change == pytest.approx(80, rel=1e-3)
    dense = Subject(trained, "dense:3", threshold=2.0)
    assert dense.phase_change is not None
    with pytest.raises(ValueError, match="curves come from the log: leave out"):
        learning(subject)


def test_figures_of_other_options_have_other_names():
    edit = "Zero('blocks.0.attn.z', head={})"
    other = (
        {},
        {"metric": "accuracy"},
        {"by": "label"},
        {"on": "dense:2"},
        {"edit": (edit.format(0),)},
        {"edit": (edit.format(1),)},
        {"training_edits": False},
        {"edit": (edit.format(0),) * 9},
        {"edit": (edit.format(0),) * 8},
    )
    stems = [_stem("metric", PlotOptions(Path("run"), **fields)) for fields in other]
    assert len({*stems}) == len(other)
    assert max(map(len, stems)) < 130


REFUSED = [
    (["plot", "{run}", "inductoin"], "'inductoin'; did you mean 'induction'?"),
    (["plot", "{run}", "maps", "--on", "trian"], "'trian'; did you mean"),
    (["plot", "{run}", "metric", "--by", "labl"], "no group 'labl'; did you mean"),
    (["plot", "{run}", "maps", "--checkpoint", "7"], "has no checkpoint 7"),
    (["plot", "{run}", "maps", "--out", "{run}/log.h5"], "log.h5 is a file"),
    (["report", "{run}", "--out", "{run}/no/r.html"], "out must be a file in a folder"),
    (["plot", "{run}", "biases", "--edit", "Zero('embed')"], "biases are the run's"),
    (["plot", "{run}", "metric", "--on", "dense:0"], "with N at least 1, got"),
    (["plot", "{run}", "learning", "--threshold", "nan"], "--threshold must be a loss"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_bad_input(arguments, message, capsys, run):
    check_refused(capsys, [x.format(run=run) for x in arguments], message)


def test_without_a_kind_the_kinds_are_listed(capsys, run):
    status, out, err = call(capsys, "plot", run)
    assert (status, [line.split()[0] for line in out.splitlines()]) == (2, [*KINDS])
    assert "plot needs a kind of figure after the run" in err


def test_all_kinds_do_not_hide_a_mistake(capsys, run):
    status, _, err = call(capsys, "plot", run, "all", "--metric", "los")
    assert (status, "no metric 'los'; did you mean" in err) == (2, True)


def test_kinds_that_edits_cannot_change_are_left_out(capsys, run, tmp_path):
    given = ["all", "--edit", "Zero('blocks.1.attn.z', head=0)", "--out", tmp_path]
    status, out, err = call(capsys, "plot", run, *given)
    assert status == 0
    assert len(out.splitlines()) == len(KINDS) - 3
    drawn = {Path(line).name.split("-Zero")[0] for line in out.splitlines()}
    assert drawn == {*KINDS} - {"learning", "training", "biases"}


def test_a_report_replaces_reports_alone(capsys, run, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<p>mine")
    status, _, err = call(capsys, "report", run, "--out", page)
    assert (status, page.read_text()) == (2, "<p>mine")
    assert "exists and was not written by this command" in err
    page.unlink()
    assert call(capsys, "report", run, "--out", page)[0] == 0
    assert call(capsys, "report", run, "--out", page)[0] == 0


# The page


@pytest.fixture(scope="module")
def page(run):
    report([str(run), "--threshold", "0.5"])
    return (run / "report.html").read_text()


class Reader(html.parser.HTMLParser):
    """Collects a page's open and wrongly closed tags, what it loads, and its text."""

    VOID = ("meta", "img", "input", "br")

    def __init__(self, page):
        super().__init__()
        self.open, self.wrong, self.loaded, self.words = [], [], [], {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.loaded += [x for name, x in attrs if name in ("src", "href", "srcset")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        key = self.open[-1] if self.open else ""
        self.words[key] = self.words.get(key, "") + data


def test_the_page_is_whole_and_loads_nothing(page):
    reader = Reader(page)
    assert reader.wrong == []
    assert reader.open == []
    assert len(reader.loaded) == 3 + 6  # Figures; heads at the last checkpoint.
    assert all(x.startswith("data:image/") for x in reader.loaded)
    assert "http" not in re.sub(r"data:image/[^\"]*|http-equiv", "", page)
    assert "default-src 'none'" in page
    assert len(page) < 3_000_000


def test_the_page_tells_the_run(page, run, trained):
    words = Reader(page).words
    assert words["h1"] == "a <b> & 'c'"
    assert "<b>" not in page
    text = "".join(words.values())
    for name, value in (("d_model", 16), ("batch_size", 32), ("commit", "")):
        assert name in text
        assert str(value) in text
    last = trained.run.log.evaluations["heldout_labels"]["loss"][-1].mean()
    assert f"{last:.4f}" in words["td"]


def test_the_patterns_are_those_of_the_model(page, trained):
    data = json.loads(Reader(page).words["script"].split("\n")[0].split('"use')[0])
    assert data["checkpoints"] == trained.run.checkpoints
    assert data["heads"] == ["0:0", "0:1", "0:2", "0:3", "1:0", "1:1"]
    stored = np.frombuffer(base64.b64decode(data["values"]), np.uint8)
    stored = stored.reshape(5, 4, 6, 5, 5) / 255
    for k, checkpoint in enumerate(trained.run.checkpoints):
        layers = patterns(trained, "train", checkpoint)
        wanted = np.concatenate([layer[:4] for layer in layers], 1)
        np.testing.assert_allclose(stored[k], wanted, atol=0.5 / 255 + 1e-6)
    a, b, query = np.asarray(trained.evaluations["train"].labels)[0].tolist()
    answer = "A?" if query == a else "B?"
    assert data["tokens"][0] == ["A", f"ℓ{a}", "B", f"ℓ{b}", answer]


def test_what_users_name_is_escaped(run, tmp_path):
    copy = unsealed(shutil.copytree(run, tmp_path / "copy"))
    config = json.loads((copy / "config.json").read_text())
    config["edits"] = ["Zero('blocks.0.attn.z', head=0)"]
    (copy / "config.json").write_text(json.dumps(config))
    meta = json.loads((copy / "meta.json").read_text())
    (copy / "meta.json").write_text(json.dumps(meta | {HOSTILE: [HOSTILE]}))
    report([str(copy)])
    page = (copy / "report.html").read_text()
    assert HOSTILE not in page
    assert "&lt;script&gt;alert" in page
    assert Reader(page).wrong == []
    assert "edits: Zero(&#x27;blocks.0.attn.z&#x27;" in page


def test_numbers_of_a_figure_that_are_undefined_are_said(
    run, tmp_path, capsys, monkeypatch
):
    values = np.array([[0.5, np.nan], [np.inf, 0.25]])

    def some(subject):
        """A figure with gaps."""
        return plots.traces(np.arange(2), values, groups=np.zeros(2), label="loss")

    monkeypatch.setitem(KINDS, "learning", some)
    plot([str(run), "learning", "--out", str(tmp_path), "--numbers", "csv"])
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("icl plot: note: learning: 2 of 4 values of ")
    rows = csv.DictReader((tmp_path / "learning.csv").read_text().splitlines())
    assert sum(not np.isfinite(float(row["value"])) for row in rows) == 2


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_the_script_is_one_that_runs(page, tmp_path):
    script = page[page.rindex("<script>") + 8 : page.rindex("</script>")]
    (tmp_path / "script.js").write_text(script)
    command = ["node", "--check", str(tmp_path / "script.js")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("heads", [1, 16, 96])
@pytest.mark.parametrize("seq", [5, 17, 33])
def test_large_models_fit_too(heads, seq):
    sequences, checkpoints = _affordable(heads * seq**2)
    assert 1 <= sequences <= 4
    assert 1 <= checkpoints <= 40
    assert heads * seq**2 * sequences * checkpoints <= _MOST_BYTES
    if heads * seq**2 <= 8000:
        assert (sequences, checkpoints) == (4, 40)


@pytest.mark.filterwarnings("ignore:.*eval_data.h5 is gone:UserWarning")
def test_a_run_without_sequences_has_its_config_and_says_so(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    for name in ("eval_data.h5", "log.h5"):
        (copy / name).unlink()
    report([str(copy)])
    text = "".join(Reader((copy / "report.html").read_text()).words.values())
    assert "It has no evaluation sets" in text
    assert "d_model" in text
    with pytest.raises(ValueError, match="no evaluations in its log"):
        plot([str(copy), "learning"])
    with pytest.raises(ValueError, match="has no evaluation sets"):
        plot([str(copy), "induction"])


def shape_of(name):
    """What the figures of a preset depend on: kinds of task and model, and sizes."""
    made = presets()[name]()
    context = getattr(made.task, "context", None)
    size = getattr(context, "length", context) or made.task.points
    return type(made.task), type(made.model), str(size)


# One preset of each shape; other tests register presets of their own.
OWN = [name for name, of in presets().items() if of.__module__.startswith("icl.")]
SHAPES = {shape_of(name): name for name in reversed(OWN)}


@pytest.mark.parametrize("name", SHAPES.values())
def test_every_kind_of_plot_of_each_shape_of_preset(name, tmp_path, capsys):
    """Each is drawn, or left out for a reason that is about the kind of run."""
    preset = presets()[name]()
    first, wanted = next(iter(preset.evaluations.items()))
    model = preset.model
    if getattr(model, "num_layers", 0) > 2:
        model = dataclasses.replace(model, num_layers=2)
    smallest = dataclasses.replace(
        preset,
        model=model,
        evaluations={first: dataclasses.replace(wanted, size=4)},
        training=Training(8, 4, None, Every(4), Every(4)),
    )
    icl.run_experiment(smallest, tmp_path / "run")
    plot([str(tmp_path / "run"), "all"])
    said = capsys.readouterr()
    left_out = [line.partition(": not drawn, as ") for line in said.err.splitlines()]
    left_out = {kind: why for kind, as_, why in left_out if as_}
    drawn = {Path(line).stem for line in said.out.splitlines()}
    assert drawn | {*left_out} == {*KINDS}
    assert {"learning", "metric", "tokens", "maps"} <= drawn
    about = "needs", "rather than", "no ", "biases"
    assert all(any(word in why for word in about) for why in left_out.values())
