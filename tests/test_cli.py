import contextlib
import dataclasses
import importlib
import importlib.metadata
import json
import os
import shlex
import subprocess
import sys

import h5py
import jax
import numpy as np
import pytest
from commands import call, check_refused
from small import small

import icl
from icl.cli import commands
from icl.cli.options import parse
from icl.cli.train import _edited, _options_from
from icl.config import to_json
from icl.data import LowRankClasses
from icl.experiments import evaluate
from icl.presets.gradient_descent import lsa
from icl.presets.likelihood_ratio import shifted_mean
from icl.runs import RunWriter


@pytest.fixture
def run(small_run):
    return small_run


def test_eval_equals_the_log(capsys, run):
    status, out, _ = call(capsys, "eval", run)
    assert status == 0
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()[1:]}
    header = out.splitlines()[0].split()
    with h5py.File(run / "log.h5") as log:
        for name, value in zip(header, rows["loss"], strict=True):
            expected = log[f"eval/{name}/loss"][-1].mean()
            assert float(value) == pytest.approx(expected, abs=2e-4)


def test_eval_under_an_edit(capsys, run):
    """Without attention output, the answer cannot depend on the context."""
    edit = "Zero('blocks.*.attn.out')"
    _, plain, _ = call(capsys, "eval", run)
    status, out, _ = call(capsys, "eval", run, "--edit", edit)
    assert status == 0
    assert out != plain
    trained = icl.load(run)
    from opto import parse

    batch = trained.evaluations["train"]
    rows = evaluate(trained.model, trained.task, batch, edits=[parse(edit)])
    loss = next(x for x in out.splitlines() if x.startswith("loss"))
    column = out.splitlines()[0].split().index("train")
    assert float(loss.split()[1 + column]) == pytest.approx(
        float(rows["loss"].mean()), abs=2e-4
    )


def test_set_replaces_any_field(capsys, tmp_path):
    file, out = tmp_path / "small.json", tmp_path / "run"
    file.write_text(json.dumps(to_json(small())))
    status, _, _ = call(
        capsys,
        "train",
        file,
        "--out",
        out,
        *("--set", 'optimizer={"type": "AdamW", "weight_decay": 0.5}'),
        *("--set", "training.num_sequences=64"),
        *("--set", "data.seed=7"),
    )
    assert status == 0
    config = json.loads((out / "config.json").read_text())
    assert config["optimizer"]["type"] == "AdamW"
    assert config["optimizer"]["weight_decay"] == 0.5
    assert config["training"]["num_sequences"] == 64
    assert config["data"]["seed"] == 7
    assert icl.load(out).run.checkpoints == [0, 64]


def test_train_from_a_config_file(capsys, run, tmp_path):
    """A run's config.json works as a preset and gives the same bits."""
    out = tmp_path / "again"
    status, text, _ = call(capsys, "train", run / "config.json", "--out", out)
    assert status == 0
    assert "640 sequences" in text
    name = "checkpoints/000000000640.eqx"
    assert (out / name).read_bytes() == (run / name).read_bytes()
    meta = json.loads((out / "meta.json").read_text())
    assert meta["versions"].keys() >= {"jax", "equinox", "icl-opto"}


def test_train_with_an_override_and_resume(capsys, tmp_path):
    config = tmp_path / "small.json"
    config.write_text(json.dumps(to_json(small())))
    out = tmp_path / "run"
    options = ["--out", out, "--optimizer.learning-rate.rate", "1e-3"]
    assert call(capsys, "train", config, *options)[0] == 0
    assert icl.Run(out).config["optimizer"]["learning_rate"]["rate"] == 1e-3
    status, _, err = call(capsys, "train", config, *options)
    assert status == 2
    assert "already holds a run" in err
    assert call(capsys, "train", config, *options, "--resume")[0] == 0
    status, _, err = call(capsys, "train", config, "--out", out, "--resume")
    assert status == 2
    assert "optimizer.learning_rate.rate: 0.001 there, 1e-05 here" in err


def test_a_run_killed_after_its_last_checkpoint_is_resumed(
    capsys, run, tmp_path, monkeypatch
):
    """Its last rows and resume point are still missing."""

    def killed(self, sequences, state, log, batch_size):
        if sequences == 640:
            raise KeyboardInterrupt
        save(self, sequences, state, log, batch_size)

    config, out = run / "config.json", tmp_path / "run"
    save = RunWriter.save_resume_point
    with monkeypatch.context() as patched:
        patched.setattr(RunWriter, "save_resume_point", killed)
        with contextlib.suppress(KeyboardInterrupt):
            call(capsys, "train", config, "--out", out)
    assert 640 in icl.Run(out).checkpoints
    assert 640 not in icl.Run(out).resume_points
    status, text, _ = call(capsys, "train", config, "--out", out, "--resume")
    assert (status, "trained for 640 sequences" in text) == (0, True)
    np.testing.assert_array_equal(
        icl.Run(out).log.train["loss"], icl.Run(run).log.train["loss"]
    )
    assert 640 in icl.Run(out).resume_points


def test_a_platform_that_jax_does_not_find(run):
    command = [sys.executable, "-m", "icl", "sites", str(run)]
    env = os.environ | {"JAX_PLATFORMS": "foo"}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 2
    assert "icl: JAX_PLATFORMS=foo: JAX finds no such device" in done.stderr
    assert "Traceback" not in done.stderr


def test_data(capsys, tmp_path):
    file = tmp_path / "x.h5"
    options = ["--out", file, "--num-classes", 4, "--num-exemplars", 2, "--dim", 3]
    assert call(capsys, "data", "low-rank", *options)[0] == 0
    with h5py.File(file) as opened:
        expected = LowRankClasses(4, 2, 3).load()
        np.testing.assert_array_equal(opened["features"], expected)
    status, _, err = call(capsys, "data", "low-rank", *options)
    assert status == 2
    assert "exists" in err


TRAIN = "train", "induction", "--out", "{tmp}/a"
CLASS_LABELS = 'evaluations.train.labels={{"type": "ClassLabels"}}'
REFUSED = [
    (["trian"], "did you mean 'train'"),
    (["train", "inductoin", "--out", "{tmp}/a"], "did you mean 'induction'"),
    (["train", "--out", "{tmp}/a"], "train needs a preset first: "),
    (["train", "induction"], "Missing from icl train induction: --out PATH"),
    ([*TRAIN, "--model.num-head", "2"], "Perhaps you meant: --model.num-heads"),
    ([*TRAIN, "--edits", "Zero('x')"], "Perhaps you meant: --edit STR"),
    ([*TRAIN, "--model.num-heads", "7"], "num_heads must divide d_model=64, got 7"),
    ([*TRAIN, "--edit", "Zro('x')"], "no edit 'Zro'; did you mean 'Zero'?"),
    ([*TRAIN, "--edit", "Zero('x')"], "no site 'x'"),
    ([*TRAIN, "--set", "modle.d_model=3"], "no 'modle'; did you mean 'model'?"),
    (
        [*TRAIN, "--set", "optimizer=Sgd"],
        "optimizer: wanted an object of Adam or AdamW or SGD, got 'Sgd'",
    ),
    ([*TRAIN, "--set", CLASS_LABELS], "set 'train' has 150 labels for a model of 5"),
    (["train", "induction", "--out", "{run}"], "already holds a run"),
    (["train", "{run}", "--out", "{tmp}/a", "--lengthen"], "must be more than"),
    (["train", "lsa", "--out", "{tmp}/a", "--lengthen"], "lsa is not a run folder"),
    (["eval", "{tmp}"], "is not a run folder"),
    (["eval", "{run}", "--checkpoint", "5"], "the nearest is 0"),
    (["eval", "{run}", "--edit", "Zero('blocks.9.attn.z')"], "; did you mean 'blocks."),
    (
        ["eval", "{run}", "--checkpoint", "0", "--checkpoint=640"],
        "--checkpoint is given twice",
    ),
    (["eval", "{run}", "--on", "dense:999999999999"], "': there are only "),
    (["data", "omnigot", "--out", "{tmp}/a.h5"], "did you mean 'omniglot'"),
    # Nothing is computed for results that cannot be written.
    (["ablate", "{run}", "--out", "{run}/config.json/x"], "cannot write"),
    (["patch", "{run}", "--out", "/proc/1/x"], "cannot write"),
    (["plot", "{run}", "all", "--out", "{run}/config.json/x"], "cannot write"),
    (["report", "{run}", "--out", "/proc/x.html"], "cannot write"),
    (["replay", "{run}", "--measure", "loss", "--out", "/proc/x.h5"], "cannot write"),
    (["figure", "gd/ood_curve", "--out", "{run}/config.json/x"], "cannot write"),
    (["data", "low-rank", "--out", "/proc/x.h5"], "cannot write in /proc"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_bad_input(capsys, arguments, message, run, tmp_path):
    given = [str(x).format(tmp=tmp_path, run=run) for x in arguments]
    check_refused(capsys, given, message)
    assert not list(tmp_path.iterdir())  # Nothing was left behind.


@pytest.mark.parametrize(
    "command", [["train"], ["train", "induction"], ["data", "low-rank"]]
)
def test_help(capsys, command):
    status, out, err = call(capsys, *command, "--help")
    assert status == 0
    assert "usage" in out
    assert err == ""


LIGHT = """
import sys
from icl.cli import main
for command in {commands}:
    try:
        main(command)
    except SystemExit as stop:
        print(stop.code or 0, file=sys.stderr)
print([x for x in ("jax", "matplotlib") if x in sys.modules], file=sys.stderr)
"""


def test_help_and_mistyped_commands_do_not_import_jax():
    # The options of train are those of a preset, and figure comes from elsewhere.
    names = [name for name in commands.COMMANDS if name not in ("train", "figure")]
    asked = [[name, "--help"] for name in names]
    asked += [["--help"], ["--version"], ["data", "omniglot", "--help"]]
    wrong = [["plott"], []]
    code = LIGHT.format(commands=[*asked, *wrong])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    *lines, imported = done.stderr.splitlines()
    assert imported == "[]"
    statuses = [int(line) for line in lines if line.isdecimal()]
    assert statuses == [0] * len(asked) + [2] * len(wrong)
    # All but --version print it, and `icl` without arguments does.
    assert done.stdout.count("\nexample: icl ") == len(asked)


def test_examples_of_help_texts_are_right():
    """Each can be read by its command's options."""
    read = 0
    for file, _ in commands.COMMANDS.values():
        for kind in vars(importlib.import_module(f"icl.cli.{file}")).values():
            if not (isinstance(kind, type) and getattr(kind, "EXAMPLE", "")):
                continue
            _, command, *arguments = shlex.split(kind.EXAMPLE)
            if file == "data":
                command, arguments = f"data {arguments[0]}", arguments[1:]
            assert isinstance(parse(kind, arguments, command), kind)
            read += 1
    assert read == len(commands.COMMANDS) - 1  # Without train and figure; data has two.


def test_edits_are_added_to_those_of_the_config(capsys, tmp_path):
    config = tmp_path / "edited.json"
    config.write_text(json.dumps(to_json(small(edits=("Zero('blocks.0.attn.z')",)))))
    given = [config, "--out", tmp_path / "run", "--training.num-sequences", 32]
    for head in (0, 1):
        given += ["--edit", f"Zero('blocks.1.attn.z', head={head})"]
    assert call(capsys, "train", *given)[0] == 0
    assert icl.Run(tmp_path / "run").config["edits"] == [
        "Zero('blocks.0.attn.z')",
        "Zero('blocks.1.attn.z', head=0)",
        "Zero('blocks.1.attn.z', head=1)",
    ]


def test_version(capsys):
    status, out, _ = call(capsys, "--version")
    assert (status, out) == (0, f"icl-opto {icl.__version__}\n")
    assert icl.__version__ == importlib.metadata.version("icl-opto")


def test_eval_on_some_sets(capsys, run):
    status, out, _ = call(capsys, "eval", run, "--on", "dense:2", "--on", "train")
    assert status == 0
    header, *lines = out.splitlines()
    assert header.split() == ["dense:2", "train"]
    trained = icl.load(run)
    batch = icl.dense_set(trained.task, max_class_pairs=2, key=jax.random.key(0))
    rows = evaluate(trained.model, trained.task, batch.sequences)
    loss = next(line.split()[1] for line in lines if line.startswith("loss"))
    assert float(loss) == pytest.approx(float(rows["loss"].mean()), abs=2e-4)


def test_a_process_of_its_own_is_quiet_when_piped(run):
    """The real entry point has no progress bar, and no traceback if the pipe closes."""
    command = f"{sys.executable} -m icl sites {run} | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.stdout.startswith("site ")
    assert done.stderr == ""


def test_a_folder_does_not_hide_a_preset(capsys, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "induction").mkdir()
    (tmp_path / "induction/config.json").write_text("{}")
    status, out, _ = call(capsys, "train", "induction", "--help")
    assert status == 0
    assert "--model.d-model" in out


def test_every_setting_of_a_preset_has_a_name(capsys, tmp_path):
    """A field that is a number or a config is an option, too."""
    for preset in ("induction", "lsa", "shifted_mean", "function_linear"):
        status, out, _ = call(capsys, "train", preset, "--help")
        assert status == 0
        assert "positional" not in out, preset
    assert "--optimizer.b1" in out
    given = ["--optimizer.b1", "0.5", "--out", str(tmp_path)]
    experiment = _edited(parse(_options_from("lsa", lsa(), None), given, "train lsa"))
    assert experiment.optimizer == dataclasses.replace(lsa().optimizer, b1=0.5)
    usual = _options_from("shifted_mean", shifted_mean(), None)
    assert _edited(parse(usual, ["--out", "x"], "train")) == shifted_mean()
