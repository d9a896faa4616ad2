"""A line of research outside the package, through every command.

This file defines a task, a model, a kind of attention, an edit, a measure, a preset
and a study. Other processes import it by `--import`, or as the study's file.
"""

import csv
import dataclasses
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import equinox as eqx
import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

import icl
import opto
from icl import cli, Experiment, measures, TaskSet, Training
from icl.models import AbstractAttention, Attention, Causal, NoPositions
from icl.presets import preset
from icl.protocols import AttentionConfig, Input, Interface, ModelConfig, TaskConfig
from icl.summaries import Correlation
from icl.training.optimizers import Adam, Constant
from icl.training.schedules import Every
from sweeps import Trial
from sweeps.folder import Folder


# A task: guess the mean of a sequence after each of its numbers.


class Numbers(eqx.Module):
    values: Float[Array, "*batch position"]
    mean: Float[Array, "*batch"]


@dataclasses.dataclass(frozen=True)
class GuessTheMean(TaskConfig):
    summaries: ClassVar[Mapping] = {
        "correlation": Correlation("guess", "mean"),
        "guess": None,
        "mean": None,
    }

    length: int = 6

    @property
    def interface(self):
        return Interface((Input("values", (self.length,), "float32"),), num_outputs=1)

    def sample(self, *, key, seen):
        mean_key, key = jax.random.split(key)
        mean = jax.random.normal(mean_key)
        return Numbers(mean + jax.random.normal(key, (self.length,)), mean)

    def inputs(self, example):
        return (example.values,)

    def forward(self, model, example, *, tap=opto.identity):
        return model(example.values, tap=tap)

    def metrics(self, outputs, example):
        error = (outputs - example.mean) ** 2
        return {
            "loss": jnp.mean(error),
            "error": error,  # By position.
            "guess": outputs[-1],
            "mean": example.mean,
        }


# A kind of attention: relu of the scores, without normalisation.


class Rectified(AbstractAttention):
    name: ClassVar = "RectifiedAttention"
    before: ClassVar = "kernel"
    rows: ClassVar = "non-negative"
    bilinear: ClassVar = False

    def __call__(self, q, k, v, seen, *, tap):
        kernel = jax.nn.relu(jnp.einsum("qhd,khd->hqk", q, k)) / len(k)
        kernel = self.name_before(tap, jnp.where(seen, kernel, 0))
        return jnp.einsum("hqk,khd->qhd", self.name_pattern(tap, kernel), v)


@dataclasses.dataclass(frozen=True)
class RectifiedAttention(AttentionConfig):
    def build(self, num_heads, d_head, *, scale, key):
        return Rectified()


# A model: each number is embedded together with a 1, and each position guesses.


class NumberModel(eqx.Module):
    read: eqx.nn.Linear
    attn: Attention
    guess: eqx.nn.Linear
    input_axes: tuple[str, ...] = eqx.field(static=True, default=("position",))

    def __call__(self, values, *, tap=opto.identity):
        x = jax.vmap(self.read)(jnp.stack([values, jnp.ones_like(values)], 1))
        x, block = tap("embed", x, "seq d_model"), tap.scope("blocks.0")
        none = NoPositions().build(x.shape[1], key=jax.random.key(0))
        x = x + self.attn(x, none, tap=block.scope("attn"))
        x = block("resid_post", x, "seq d_model")
        return tap("guess", jax.vmap(self.guess)(x)[:, 0], "seq")


@dataclasses.dataclass(frozen=True)
class NumberModelConfig(ModelConfig):
    d_model: int = 8
    num_heads: int = 2
    attention: AttentionConfig = RectifiedAttention()

    def build(self, interface, *, key):
        read, attn, guess = jax.random.split(key, 3)
        return NumberModel(
            eqx.nn.Linear(2, self.d_model, key=read),
            Attention(
                self.d_model,
                self.num_heads,
                kind=self.attention,
                mask=Causal(),
                key=attn,
            ),
            eqx.nn.Linear(self.d_model, interface.num_outputs, key=guess),
        )


# An edit, a measure, a preset and a study.


@opto.toolkit.register
class Negate(opto.toolkit.Edit):
    """Changes the sign of entries."""

    def replacement(self, value, site):
        return -value


@measures.register
def total_attention():
    """The sum of each row's weights, averaged over rows: `[head]`."""

    def fn(record, outputs, example):
        return jnp.mean(jnp.sum(record["blocks.0.attn.pattern"], -1), -1)

    return measures.Measure(fn, ("blocks.0.attn.pattern",), axes="head")


EDIT = "Negate('blocks.0.attn.z', head=1, strength=0.25)"


@preset
def numbers(rate=3e-3, sequences=32_000, edits=(EDIT,)):
    return Experiment(
        task=GuessTheMean(),
        model=NumberModelConfig(),
        optimizer=Adam(Constant(rate)),
        training=Training(sequences, 32, None, Every(3200), Every(3200)),
        evaluations={"train": TaskSet(50), "long": TaskSet(50, GuessTheMean(12))},
        edits=edits,
    )


def trials(scale, folder, data):
    for rate in (1e-3, 3e-3):
        yield Trial(f"rate-{rate}", numbers(rate, 3200))


# The tests.


HERE = Path(__file__).resolve()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "numbers"
    assert _icl("train", "numbers", "--out", folder)[0] == 0
    return folder


def _icl(*arguments):
    """Runs a command in its own process; returns its status and output."""
    command = [sys.executable, "-m", "icl", "--import", HERE, *arguments]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def _call(capsys, *arguments):
    """Runs a command in this process, which already has this file's kinds."""
    with pytest.raises(SystemExit) as stop:
        cli.main([str(x) for x in arguments])
    out, err = capsys.readouterr()
    return stop.value.code or 0, out, err


def test_it_learns_and_is_read_back(run):
    trained = icl.load(run)
    assert trained.experiment == numbers()
    log = trained.run.log
    assert log.evaluations["train"]["error"].shape == (11, 50, 6)
    assert log.evaluations["long"]["error"].shape == (11, 50, 12)
    losses = log.evaluations["train"]["loss"].mean(1)
    assert losses[-1] < 0.5 * losses[0]
    by_position = log.evaluations["train"]["error"][-1].mean(0)
    assert by_position[-1] < by_position[0]


def test_a_run_says_what_to_import(run):
    command = [sys.executable, "-m", "icl", "sites", str(run)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"--import {HERE}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_eval_and_sites(run, capsys):
    status, out, _ = _call(capsys, "eval", run)
    assert status == 0
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()[1:]}
    assert {*rows.pop("checkpoint")} == {str(icl.load(run).run.checkpoints[-1])}
    assert rows.keys() == {"loss", "error", "error_last", "correlation"}
    trained = icl.load(run)
    final = trained.run.log.evaluations["train"]
    last = final["error"][-1][:, -1].mean()
    assert float(rows["error_last"][0]) == pytest.approx(last, abs=1e-4)
    expected = np.corrcoef(final["guess"][-1], final["mean"][-1])[0, 1]
    assert float(rows["correlation"][0]) == pytest.approx(expected, abs=1e-4)
    status, out, _ = _call(capsys, "sites", run)
    assert "blocks.0.attn.kernel" in out
    assert "scores" not in out


def test_ablate_and_patch(run, capsys, tmp_path):
    status, out, _ = _call(capsys, "ablate", run, "--out", tmp_path / "a")
    assert status == 0
    assert "correlation" in out
    options = ["--site", "blocks.0.attn.z", "--over", "head"]
    status, out, _ = _call(capsys, "patch", run, *options, "--out", tmp_path / "p")
    assert status == 0
    assert "negative loss" in out
    files = {str(x.relative_to(tmp_path)) for x in tmp_path.rglob("*.png")}
    assert files == {"a/heads.png", "p/patch.png"}


def test_patching_sets_of_several_lengths(run, capsys, tmp_path):
    options = ["--site", "blocks.0.resid_post", "--over", "pos", "--out", tmp_path]
    status, out, err = _call(capsys, "patch", run, *options)
    assert status == 0, err
    with open(tmp_path / "patch.csv", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert {row["set"] for row in rows} == {"train", "long"}
    trained = icl.load(run)
    for name, length in (("train", 6), ("long", 12)):
        own = [row for row in rows if row["set"] == name]
        assert [int(row["pos"]) for row in own] == [*range(length)]
        # Each position makes its own guess, so it restores its own part of the loss.
        batch = trained.evaluations[name]
        clean, source = (
            _each_evidence(trained, values, batch.mean)
            for values in (batch.values, jnp.roll(batch.values, 1, axis=0))
        )
        got = [float(row["patched"]) for row in own]
        np.testing.assert_allclose(got, source.sum() + clean - source, rtol=1e-4)


def _each_evidence(trained, values, means):
    """Minus the loss that each position's guess adds."""
    guesses, _ = opto.run(trained.model, values, edits=trained.edits)
    errors = (np.asarray(guesses) - np.asarray(means)[:, None]) ** 2
    return -errors.mean(0) / values.shape[1]


def test_replay_plot_and_report(run, capsys, tmp_path):
    asked = ["--measure", "total_attention", "--measure", "error"]
    out = tmp_path / "found.h5"
    assert _call(capsys, "replay", run, *asked, "--out", out)[0] == 0
    with h5py.File(out) as file:
        assert file["measures/total_attention"].shape == (11, 2)
        assert file["measures/error"].shape == (11, 6)
    options = ["--metric", "error", "--out", tmp_path]
    status, out, err = _call(capsys, "plot", run, "all", *options)
    assert status == 0
    drawn = {Path(line).stem for line in out.split()}
    assert {"learning", "metric-error", "tokens", "maps"} <= drawn
    assert "induction: not drawn, as" in err
    assert _call(capsys, "report", run, "--out", tmp_path / "r.html")[0] == 0
    assert "RectifiedAttention" in (tmp_path / "r.html").read_text()


LACKING = {
    "roles": ["replay", "--measure", "query_attention"],
    "softmax": ["eval", "--edit", "Block(distance=1)"],
    "distribution": ["eval", "--edit", "Pattern(Uniform())"],
    "labels": ["plot", "similarity"],
    "other labels": ["patch", "--corruption", "labels-swapped"],
    "dense": ["plot", "metric", "--on", "dense"],
}


@pytest.mark.parametrize("name", LACKING)
def test_what_it_does_not_have_is_said_in_one_line(run, capsys, name, tmp_path):
    command, *options = LACKING[name]
    if command in ("plot", "patch", "replay"):
        options += ["--out", tmp_path / "found.h5"]
    status, _, err = _call(capsys, command, run, *options)
    assert status == 2
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_a_study(tmp_path):
    command = [sys.executable, "-m", "sweeps"]
    folder = tmp_path / "study"
    launch = [*command, str(HERE), "--out", str(folder), "--scale", "smoke"]
    done = subprocess.run(launch, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    table = folder / "collected.csv"
    plugin = ["--import", __file__]
    collect = [*command, "collect", str(folder), "--out", str(table), *plugin]
    done = subprocess.run(collect, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    header, *rows = table.read_text().splitlines()
    columns = header.split(",")
    assert {"correlation", "error", "error_last"} <= {*columns}
    assert "optimizer.learning_rate.rate" in columns
    assert {row.split(",")[0] for row in rows} == {"rate-0.001", "rate-0.003"}
    assert Folder(folder).read()["plugins"] == [str(HERE)]
    # Both run in one program, because they differ only in a number.
    assert len([*(folder / "_sweep/jobs").glob("*.json")]) == 1
    stored = json.loads((folder / "rate-0.003/config.json").read_text())
    assert stored["task"]["type"] == "GuessTheMean"
    assert stored["model"]["attention"]["type"] == "RectifiedAttention"
