"""YAML configs of public codes: what they become, and what is refused."""

import csv
import re
import signal

import numpy as np
import pytest
from stops import stopping_at

import icl
from icl import cli
from icl.compat.function_yaml import read_yaml
from icl.compat.published_shifts import published_shift
from icl.models.gpt2 import ExactGelu, TanhGelu
from icl.tasks.functions import Curriculum, Ramp
from icl.tasks.functions.classes import (
    AffineFunction,
    DecisionTree,
    LinearClassification,
    LinearFunction,
    NoisyLinear,
    SparseLinear,
    TwoLayerReLU,
    UniformLinear,
)
from icl.tasks.functions.classes.noisy import ExpectedSize
from icl.tasks.functions.shifts import (
    OppositeQuery,
    OrthantContext,
    OrthogonalQuery,
    ScaledQuery,
    SkewedInputs,
    SubspaceInputs,
)
from icl.training.optimizers import Adam, Constant
from icl.training.schedules import Every


# As in the README of limits_of_icl.
PUBLISHED = """
model:
  family: nanogpt
  n_dims: 20
  n_embd: 256
  n_head: 8
  n_layer: 12
  n_positions: 41
  attention_type: softmax_causal
  attention_kwargs: {}
out_dir: ./models/my_experiment
training:
  batch_size: 64
  learning_rate: 0.0001
  train_steps: 100001
  save_every_steps: 1000
  keep_every_steps: 100000
  task: linear_regression
  task_kwargs: {}
  data: gaussian
  num_tasks: null
  num_training_examples: null
  curriculum:
    dims: {start: 5, end: 20, inc: 1, interval: 2000}
    points: {start: 11, end: 41, inc: 2, interval: 2000}
test_run: false
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="config.yaml"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def changed(old, new):
    assert old in PUBLISHED
    return PUBLISHED.replace(old, new)


def test_the_published_config(write):
    found = read_yaml(write(PUBLISHED))
    task, model = found.experiment.task, found.experiment.model
    assert str(found.out) == "models/my_experiment"
    assert found.attention_type == "softmax_causal"
    assert (task.function, task.dim, task.points) == (LinearFunction(), 20, 41)
    ramps = Ramp(5, 20, 1, 128_000), Ramp(11, 41, 2, 128_000)
    assert task.curriculum == Curriculum(*ramps)
    sizes = model.num_layers, model.d_model, model.num_heads, model.max_length
    assert sizes == (12, 256, 8, 82)
    assert model.activation == ExactGelu()
    training = found.experiment.training
    assert training.num_steps == 100_001
    assert training.checkpoint_at == Every(6_400_000)
    assert training.evaluate_at == Every(64_000)
    assert found.experiment.optimizer == Adam(Constant(1e-4))


def test_configs_inherit(write):
    """As the files of Garg et al.: later ones win, keys within a part are merged."""
    write("model: {family: gpt2, n_embd: 128, n_layer: 6, n_head: 4}", "small.yaml")
    write("wandb: {project: mine, entity: us, notes: , log_every_steps: 5}", "w.yaml")
    write(
        "inherit: [small.yaml, w.yaml]\n"
        "model: {n_dims: 20, n_positions: 101, n_layer: 5}\n"
        "training: {data: gaussian, task_kwargs: {}, curriculum: "
        "{dims: {start: 5, end: 20, inc: 1, interval: 2000}}}",
        "base.yaml",
    )
    file = write(
        "inherit: [base.yaml]\nout_dir: there\nwandb: {name: relu}\n"
        "training: {task: relu_2nn_regression, task_kwargs: {hidden_layer_size: 30}, "
        "curriculum: {points: {start: 26, end: 101, inc: 5, interval: 2000}}}"
    )
    found = read_yaml(file).experiment
    assert found.task.function == TwoLayerReLU(30)
    assert found.task.points == 101
    assert found.task.curriculum.points == Ramp(26, 101, 5, 128_000)
    assert (found.model.num_layers, found.model.d_model) == (5, 128)
    assert found.model.activation == TanhGelu()
    assert found.optimizer == Adam(Constant(3e-4))
    assert found.training.num_steps == 1000
    loop = write("inherit: [loop.yaml]", "loop.yaml")
    with pytest.raises(ValueError, match=r"loop.yaml inherits from itself"):
        read_yaml(loop)


FUNCTIONS = {
    "uniform_linear_regression, task_kwargs: {scale: 2}": UniformLinear(2.0),
    "sparse_linear_regression, task_kwargs: {sparsity: 2}": SparseLinear(2),
    "sparse_linear_regression, task_kwargs: {}": SparseLinear(3),
    "linear_classification, task_kwargs: {}": LinearClassification(),
    "noisy_linear_regression, task_kwargs: {noise_std: 1, renormalize_ys: true}": (
        NoisyLinear(1.0, size=ExpectedSize())
    ),
    "noisy_linear_regression, task_kwargs: {}": LinearFunction(),
    "affine_regression, task_kwargs: {bias_std: 0.5}": AffineFunction(0.5),
    "decision_tree, task_kwargs: {depth: 3}": DecisionTree(3),
    "relu_2nn_regression, task_kwargs: ": TwoLayerReLU(100),
}


@pytest.mark.parametrize("text", FUNCTIONS)
def test_tasks(text, write):
    task, arguments = text.split(", ", 1)
    config = changed("task: linear_regression", f"task: {task}")
    config = config.replace("task_kwargs: {}", arguments)
    assert read_yaml(write(config)).experiment.task.function == FUNCTIONS[text]


def test_a_curriculum_that_does_not_grow_is_none(write):
    text = PUBLISHED.replace("start: 5", "start: 20").replace("start: 11", "start: 41")
    assert read_yaml(write(text)).experiment.task.curriculum is None


REFUSED = {
    "no key 'modle'; did you mean 'model'?": ("model:", "modle:"),
    "training: no key 'lr'; known: task": ("learning_rate", "lr"),
    "training.curriculum.dims: no key 'step'": ("{start: 5", "{step: 5"),
    "training.task is missing": ("  task: linear_regression\n", ""),
    "training.task: no task 'linear_regresion'; did you mean 'linear_regression'": (
        "task: linear_regression",
        "task: linear_regresion",
    ),
    "training.task_kwargs: linear_regression has no 'noise'; known: scale": (
        "task_kwargs: {}",
        "task_kwargs: {noise: 1}",
    ),
    "training.num_tasks must be null, got 5": ("num_tasks: null", "num_tasks: 5"),
    "training.data must be \"gaussian\", got 'uniform'": ("gaussian", "uniform"),
    "training.curriculum.points: end must be at least start=51, got 41": (
        "start: 11",
        "start: 51",
    ),
    "curriculum: dims must end at 20 or below, got 30": ("end: 20", "end: 30"),
    "test_run must be false, got True": ("test_run: false", "test_run: true"),
    "training.batch_size must be a positive integer": (
        "batch_size: 64",
        "batch_size: 0",
    ),
    "no family 'lstm'": ("nanogpt", "lstm"),
    "learning_rate must be a number, got 'fast'": ("0.0001", "fast"),
    "training.learning_rate must be a number, got '1e-4'; YAML reads it as text, so "
    "write 0.000100": ("0.0001", "1e-4"),
    "training.learning_rate must be positive and finite, got -1.0": ("0.0001", "-1.0"),
    "training.task_kwargs: sparsity must be at most dim=20, got 30": (
        "linear_regression\n  task_kwargs: {}",
        "sparse_linear_regression\n  task_kwargs: {sparsity: 30}",
    ),
    "n_embd stands there twice": ("n_embd: 256", "n_embd: 256\n  n_embd: 128"),
    "model: attention_type must be softmax_causal if family is gpt2, got 'rela'": (
        "nanogpt\n  n_dims: 20\n  n_embd: 256\n  n_head: 8\n  n_layer: 12\n"
        "  n_positions: 41\n  attention_type: softmax_causal",
        "gpt2\n  n_dims: 20\n  n_embd: 256\n  n_head: 8\n  n_layer: 12\n"
        "  n_positions: 41\n  attention_type: rela",
    ),
    "training.curriculum: dims must end at 20 or below, got 30": (
        "{start: 5, end: 20",
        "{start: 20, end: 30",
    ),
    "training.curriculum: points must end at n_positions=40 or below, got 41": (
        "n_positions: 41",
        "n_positions: 40",
    ),
    "local_window_size of local_global must be below 82 tokens, got None": (
        "attention_type: softmax_causal\n  attention_kwargs: {}",
        "attention_type: local_global\n"
        "  attention_kwargs: {global_attn_indices: [20, 40]}",
    ),
    "local_window_size of local_global must be below 82 tokens, got 82": (
        "attention_type: softmax_causal\n  attention_kwargs: {}",
        "attention_type: local_global\n  attention_kwargs: {local_window_size: 82}",
    ),
    "global_attn_indices must be from 0 to 81, got 400": (
        "attention_type: softmax_causal\n  attention_kwargs: {}",
        "attention_type: local_global\n"
        "  attention_kwargs: {local_window_size: 5, global_attn_indices: [4, 400]}",
    ),
    "renormalize_ys needs a noise_std above 0, got none": (
        "linear_regression\n  task_kwargs: {}",
        "noisy_linear_regression\n  task_kwargs: {renormalize_ys: true}",
    ),
    "must have keys, got str": (PUBLISHED, "text"),
    "cannot read": (PUBLISHED, "a: [1"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message, write):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        read_yaml(write(changed(*REFUSED[message])))
    assert "\n" not in str(error.value)
    assert str(error.value).count("config.yaml") == 1


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="cannot read .*gone.yaml: No such file"):
        read_yaml(tmp_path / "gone.yaml")


def command(arguments):
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert not stopped.value.code


def test_training_from_a_config(write, tmp_path, capsys):
    """The run, its table and its figure, in the folder that the config names."""
    text = PUBLISHED
    for old, new in {
        "n_dims: 20": "n_dims: 3",
        "n_embd: 256": "n_embd: 8",
        "n_head: 8": "n_head: 2",
        "n_layer: 12": "n_layer: 1",
        "n_positions: 41": "n_positions: 5",
        "./models/my_experiment": f"{tmp_path}/run",
        "batch_size: 64": "batch_size: 1",
        "100001": "1101",
        "{start: 5, end: 20, inc: 1, interval: 2000}": (
            "{start: 1, end: 3, inc: 1, interval: 400}"
        ),
        "{start: 11, end: 41, inc: 2, interval: 2000}": (
            "{start: 2, end: 5, inc: 2, interval: 700}"
        ),
    }.items():
        assert old in text
        text = text.replace(old, new)
    file = write(text)
    command(["train", "--yaml", str(file)])
    out = capsys.readouterr().out
    assert "run: trained for 1,101 sequences" in out
    with open(tmp_path / "run" / "training_log.csv", newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert [row["step"] for row in rows] == ["0", "500", "1000"]
    assert [row["n_dims"] for row in rows] == ["1", "2", "3"]
    assert [row["n_points"] for row in rows] == ["2", "2", "4"]
    logged = icl.Run(tmp_path / "run").log.train["loss"]
    np.testing.assert_allclose(
        [float(row["loss"]) for row in rows], logged[::500], rtol=1e-6
    )
    assert (tmp_path / "run" / "softmax_causal_loss.jpg").read_bytes()[
        :2
    ] == b"\xff\xd8"
    command(["plot", str(tmp_path / "run"), "training", "--numbers", "csv"])
    numbers = next((tmp_path / "run" / "figures").glob("training*.csv")).read_text()
    for change in (400, 700, 800):
        assert f"{change}" in numbers
    for name in ("training_log.csv", "softmax_causal_loss.jpg"):
        (tmp_path / "run" / name).unlink()
    command(["train", "--yaml", str(file), "--resume"])
    assert "was already trained" in capsys.readouterr().out
    for name in ("training_log.csv", "softmax_causal_loss.jpg"):
        assert (tmp_path / "run" / name).stat().st_size


def stopped(folder, write):
    """Trains a small model until a signal, and gives the lines of its loss."""
    text = changed("train_steps: 100001", "train_steps: 100")
    for old, new in {
        "n_embd: 256": "n_embd: 4",
        "n_head: 8": "n_head: 2",
        "n_layer: 12": "n_layer: 1",
        "./models/my_experiment": f"{folder}",
        "batch_size: 64": "batch_size: 1",
    }.items():
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(SystemExit, match="130"):
        cli.main(["train", "--yaml", str(write(text))])
    rows = (folder / "training_log.csv").read_text().splitlines()
    assert rows[0] == "step,loss,n_points,n_dims"
    return rows[1:]


def test_a_run_that_is_stopped_has_its_loss_so_far(tmp_path, write, monkeypatch):
    for module in (icl.training._fit, icl.training._steps):
        monkeypatch.setattr(module, "BUFFER", 10)
    with stopping_at(30):
        rows = stopped(tmp_path / "run", write)
    assert [row.split(",")[0] for row in rows] == ["0"]
    assert (tmp_path / "run" / "softmax_causal_loss.jpg").stat().st_size


def test_a_run_that_is_stopped_at_once_has_no_loss(
    tmp_path, write, monkeypatch, capsys
):
    save = icl.training._fit._Fit._save
    asked = []

    def interrupted(self):
        if not asked:
            asked.append(signal.raise_signal(signal.SIGINT))
        save(self)

    monkeypatch.setattr(icl.training._fit._Fit, "_save", interrupted)
    assert stopped(tmp_path / "run", write) == []
    assert "icl: stopped at 0 sequences" in capsys.readouterr().err
    assert not (tmp_path / "run" / "softmax_causal_loss.jpg").exists()


# Shifts by their published names


def test_published_shifts():
    size = {"points": 41, "dim": 20}
    found = lambda name, **given: published_shift(name, given, **size)
    assert found("standard") is None
    assert found("scaled_query", scale=2.1) == ScaledQuery(2.1)
    assert found("random_quadrants", num_constrained_points=5) == OrthantContext(5)
    assert found("random_quadrants") == OrthantContext()
    assert found("opposite_quadrants") == OppositeQuery()
    assert found("orthogonal_train_test") == OrthogonalQuery()
    assert found("subspace", num_dim=3) == SubspaceInputs(3)
    assert found("skewed", exponent=1.3) == SkewedInputs(1.3)
    near = published_shift(
        "orthogonal_train_test", {"num_orthogonal_vectors": 2}, points=3, dim=3
    )
    assert near == OrthogonalQuery(2)


NOTHING = {
    "flips random signs of a query whose signs are random: use OppositeQuery(3)": (
        "opposite_quadrants",
        {"num_flipped_dims": 3},
    ),
    "does not change a query after more than dim=20 points: use OrthogonalQuery(2)": (
        "orthogonal_train_test",
        {"num_orthogonal_vectors": 2},
    ),
    "constrained=1 changes nothing": (
        "random_quadrants",
        {"num_constrained_points": 1},
    ),
    "scale=1.0 changes nothing": ("scaled_query", {"scale": 1}),
    "no prompting strategy 'skewd'; did you mean 'skewed'?": ("skewd", {}),
    "skewed has no argument 'power'; known: exponent": ("skewed", {"power": 1}),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("message", NOTHING)
def test_published_settings_that_change_nothing(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        published_shift(*NOTHING[message], points=41, dim=20)
