"""Runs and weights of icl-dynamics."""

import functools
import json
import shutil
from pathlib import Path

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

import icl
import opto
from icl import measures
from icl.batches import save_batches
from icl.cli.import_run import import_run as import_command
from icl.compat.icl_dynamics import import_run, load_model, load_run
from icl.compat.icl_dynamics._experiment import experiment_from
from icl.compat.icl_dynamics._options import read_options
from icl.config import from_json, to_json
from icl.experiments import evaluate
from icl.tasks.classification import classification
from icl.tasks.exemplar_label import (
    ClassLabels,
    Context,
    FlippedLabels,
    Matched,
    Mixture,
    QueryLabelOnContext,
    Relabel,
    Sequence,
    Split,
    UniformClasses,
    Zipf,
)
from icl.training.optimizers import Constant, SGD
from icl.training.schedules import Every, Exactly


DATA = Path(__file__).parents[1].parent / "shared/data/icl_dynamics"
reference = pytest.mark.skipif(
    not DATA.exists(), reason="the reference run is not here"
)


# Synthetic runs: files like those of icl-dynamics, with random weights


# A smaller main run of the induction-head paper, otherwise with that code's defaults.
CONFIG = {
    "depth": 2,
    "d_model": 16,
    "num_heads": 2,
    "model_output_classes": 5,
    "mixing_coeffs": [1.0],
    "pt_burstiness": [1],
    "train_context_len": 2,
    "fs_relabel": 5,
    "train_iters": 96,
    "train_bs": 32,
    "eval_iters": 6,
    "eval_sched": [0, 32, 64],
    "ckpt_sched": [0, 64],
    "data_file": "classes.h5",
    "data_path_in_file": "feat",
    "class_split": [6, 0, 2],
    "exemplar_split": [1, 2, 0],
    "pe_names": ["icl"],
    "pe_classes": ["train"],
    "pe_exemplars": ["train"],
    "pe_burstiness": [1],
    "opto_prev_token_heads": None,
    "opto_prev_token_head_strength": 1.0,
    "opto_ablate_embedding": False,
    "base_folder": "/elsewhere",
}
DIM = 7


def random_weights(config, rng):
    """Random arrays of a model, by name, in the order of the file."""
    d, labels = config["d_model"], config["model_output_classes"]
    weights = {}

    def add(name, *shape, scale=0.3):
        weights[name] = scale * rng.standard_normal(shape).astype(np.float32)

    def norm(name):
        if not config.get("no_norm"):
            add(f"{name}_scale", d, scale=1.0)
            add(f"{name}_offset", d)

    add("exemplar", d, DIM)
    if config.get("data_type") != "onehot":
        add("exemplar_bias", d)
    add("label", d, labels)
    if config.get("pos_embedding_type") == "ape":
        add("positions", d, 32)
    for i in range(config["depth"]):
        norm(f"{i}.norm1")
        add(f"{i}.qkv", 3 * d, d)
        add(f"{i}.proj", d, d)
        if config.get("mlp_ratio") is not None:
            hidden = int(d * config["mlp_ratio"])
            norm(f"{i}.norm2")
            add(f"{i}.fc1", hidden, d)
            add(f"{i}.fc1_bias", hidden)
            add(f"{i}.fc2", d, hidden)
            add(f"{i}.fc2_bias", d)
    norm("norm")
    add("unembed", labels, d)
    add("unembed_bias", labels)
    return weights


def write_eqx(path, weights, iteration, config=CONFIG, cast=np.float32, **attention):
    """Writes the leaves of their model, then those of Adam's state, and keys.

    `attention` replaces scalars of the first block.
    """
    d, heads = config["d_model"], config["num_heads"]
    kind = config.get("pos_embedding_type", "rope")
    scalars = {
        "num_heads": np.int64(heads),
        "causal": np.bool_(not config.get("not_causal")),
        "use_rope": np.bool_(kind == "rope"),
        "sin_time": np.float64(config.get("sin_time", 1e4)),
        "scale": np.float64((d // heads) ** -0.5),
    }
    dropout, inference = [np.float64(0), np.bool_(False)], [np.bool_(False)]
    before = {
        "exemplar": [np.int64(x) for x in (iteration, d, weights["label"].shape[1])]
    }
    before |= {"label": dropout, "unembed": inference}
    after = {"positions": dropout}
    for i in range(config["depth"]):
        changed = {k: np.array(v) for k, v in attention.items() if i == 0}
        before[f"{i}.qkv"] = [*(scalars | changed).values()]
        parts = "qkv", "proj", "fc1_bias", "fc2_bias"
        after |= {f"{i}.{part}": dropout for part in parts}
    after["positions" if "positions" in weights else "label"] = [
        *(dropout if "positions" in weights else ()),
        np.int64(d),
    ]
    with open(path, "wb") as file:
        for name, array in weights.items():
            leaves = *before.get(name, ()), array.astype(cast), *after.get(name, ())
            for leaf in leaves:
                np.save(file, leaf)
        for leaf in (*inference, np.int32(iteration // 32)):
            np.save(file, leaf)
        for array in [*weights.values()] * 2:
            np.save(file, 9 * np.ones_like(array))
        for _ in range(3):
            np.save(file, np.array([1, 2], np.uint32))


def write_log(path, events=(0, 32, 96), steps=(32.0, 64.0, 96.0)):
    """Writes a log whose values encode their position: event or step, and sequence."""
    with h5py.File(path, "w") as file:
        file["eval_iter"] = np.array(events)
        place = 10.0 * np.arange(len(events))[:, None] + np.arange(6)
        file["icl/loss"] = place.astype(np.float32)
        file["icl/acc"] = place % 2 == 0
        file["icl/use_context_prob"] = place / 100
        file["icl/margin"] = -place
        file["train_iter"] = np.array(steps)
        file["train_loss"] = np.arange(len(steps)) + 0.5
        file["train_grad_norm"] = np.arange(len(steps)) + 1.5
        file["train_grad_batch_stddev"] = np.zeros(len(steps))


def write_run(place, **changes):
    """Writes a run folder of icl-dynamics; arguments set fields of the config."""
    folder = place / "run"
    (folder / "checkpoints").mkdir(parents=True)
    config = CONFIG | changes
    (folder / "config.json").write_text(json.dumps(config))
    rng = np.random.default_rng(0)
    for iteration, name in ((0, "00000000000"), (96, "0000000096")):
        weights = random_weights(config, rng)
        write_eqx(folder / f"checkpoints/{name}.eqx", weights, iteration, config)
    write_log(folder / "log.h5")
    with h5py.File(place / "classes.h5", "w") as file:
        shape = sum(config["class_split"]), sum(config["exemplar_split"]), DIM
        file["feat"] = rng.standard_normal(shape).astype(np.float32)
    return folder


@pytest.fixture
def peer(tmp_path):
    """Makes a run folder of icl-dynamics."""
    return functools.partial(write_run, tmp_path)


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """A run folder of icl-dynamics, the same run as ours, and the notes on it."""
    place = tmp_path_factory.mktemp("imported")
    folder = write_run(place)
    return folder, place / "out", import_run(folder, place / "out")


# Weights


STRUCTURES = {
    "paper": {},
    "three_layers": {"depth": 3, "num_heads": 4},
    "mlp": {"mlp_ratio": 2.6},
    "ape": {"pos_embedding_type": "ape"},
    "sinusoidal": {"pos_embedding_type": "sinusoidal", "sin_time": 30.0},
    "rope_30": {"sin_time": 30.0},
    "no_norm": {"no_norm": True},
    "no_norm_mlp": {"no_norm": True, "mlp_ratio": 4.0, "depth": 1},
    "not_causal": {"not_causal": True},
    "all": {"depth": 4, "pos_embedding_type": "ape", "mlp_ratio": 1.0, "num_heads": 8},
}


def forward(examples, labels, weights, config):
    """Their model in float64: `oracles.transformer` with our names of the weights."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    seq, d = 2 * len(examples) - 1, config["d_model"]
    kind = config.get("pos_embedding_type", "rope")
    tree = {"label_table": w["label"].T, "blocks": []}
    tree |= {name: w[name] for name in ("exemplar", "unembed", "unembed_bias")}
    tree["exemplar_bias"] = w["exemplar_bias"]
    if kind == "ape":
        tree["added"] = w["positions"].T[:seq]
    if kind == "sinusoidal":
        tree["added"] = oracles.sinusoid(seq, d, config["sin_time"])
    for i in range(config["depth"]):
        qkv = zip(("query", "key", "value"), np.split(w[f"{i}.qkv"], 3), strict=True)
        block = {**dict(qkv), "output": w[f"{i}.proj"]}
        if f"{i}.norm1_scale" in w:
            block["norm"] = w[f"{i}.norm1_scale"], w[f"{i}.norm1_offset"]
            tree["norm"] = w["norm_scale"], w["norm_offset"]
        if f"{i}.fc1" in w:
            block |= {"expand": w[f"{i}.fc1"], "expand_bias": w[f"{i}.fc1_bias"]}
            block |= {"contract": w[f"{i}.fc2"], "contract_bias": w[f"{i}.fc2_bias"]}
        if f"{i}.norm2_scale" in w:
            block["mlp_norm"] = w[f"{i}.norm2_scale"], w[f"{i}.norm2_offset"]
        tree["blocks"].append(block)
    return oracles.transformer(
        examples,
        labels,
        tree,
        heads=[config["num_heads"]] * config["depth"],
        seen=[np.ones((seq, seq), bool)] * config["depth"]
        if config.get("not_causal")
        else None,
        theta=config.get("sin_time", 1e4) if kind == "rope" else None,
    )


@pytest.mark.parametrize(
    ("name", "pairs"),
    [*((name, 2) for name in STRUCTURES), ("rope_30", 15), ("sinusoidal", 15)]
    + [("ape", 15)],
)
def test_loaded_model_equals_numpy(name, pairs, tmp_path):
    config = CONFIG | STRUCTURES[name]
    rng = np.random.default_rng(1)
    weights = random_weights(config, rng)
    write_eqx(tmp_path / "0.eqx", weights, 0, config)
    model = load_model(config, tmp_path / "0.eqx")
    examples = rng.standard_normal((pairs + 1, DIM)).astype(np.float32)
    labels = rng.integers(0, 5, pairs + 1).astype(np.int32)
    expected, patterns = forward(examples, labels, weights, config)
    out, record = opto.run(
        model, examples, labels, record=["logits", "blocks.*.attn.pattern"]
    )
    np.testing.assert_allclose(record["logits"], expected, atol=1e-4)
    np.testing.assert_allclose(out, expected[::2], atol=1e-4)
    for layer, pattern in enumerate(patterns):
        ours = record[f"blocks.{layer}.attn.pattern"]
        np.testing.assert_allclose(ours, pattern, atol=1e-5)


def test_one_hot_data_is_a_table(tmp_path):
    config = CONFIG | {"data_type": "onehot"}
    rng = np.random.default_rng(1)
    weights = random_weights(config, rng)
    write_eqx(tmp_path / "0.eqx", weights, 0, config)
    model = load_model(config, tmp_path / "0.eqx")
    ids, labels = np.array([6, 0, 6], np.int32), np.array([1, 4, 1], np.int32)
    no_bias = weights | {"exemplar_bias": np.zeros(16, np.float32)}
    expected, _ = forward(np.eye(DIM)[ids], labels, no_bias, config)
    out = model(jnp.asarray(ids), jnp.asarray(labels))
    np.testing.assert_allclose(out, expected[::2], atol=1e-4)


def test_an_old_config_lacks_fields(peer, tmp_path):
    folder = peer()
    config = {"d_model": 16, "num_heads": 2, "model_output_classes": None}
    model = load_model(config, folder / "checkpoints/00000000000.eqx")
    new, _ = load_run(folder, 0)
    leaves = zip(jax.tree.leaves(model), jax.tree.leaves(new), strict=True)
    assert all(np.array_equal(a, b) for a, b in leaves)


def test_load_run_takes_a_checkpoint(imported):
    folder, *_ = imported
    last, config = load_run(folder)
    assert config == CONFIG
    first, same = (load_run(folder, n)[0].unembed.weight for n in (0, 96))
    assert np.array_equal(last.unembed.weight, same)
    assert not np.array_equal(last.unembed.weight, first)


def cut(folder):
    file = folder / "checkpoints/0000000096.eqx"
    file.write_bytes(file.read_bytes()[:2000])


def without_the_end(folder, most=3):
    """Complete arrays, but too few of them: after this many leaves the file ends."""
    file = folder / "checkpoints/0000000096.eqx"
    leaves = file.read_bytes().split(b"\x93NUMPY")
    file.write_bytes(b"\x93NUMPY".join(leaves[: most + 1]))


BAD_FILES = {
    "cut": (cut, "0000000096.eqx is cut short or not an .eqx file: array"),
    "short": (without_the_end, "must hold embeddings, then attention with num_heads"),
    "few_blocks": (
        lambda f: without_the_end(f, 30),
        "0000000096.eqx ends before blocks.1.attn.proj.weight: it holds 10 arrays",
    ),
    "empty": (
        lambda f: (f / "checkpoints/0000000096.eqx").write_bytes(b""),
        "must hold embeddings, then attention with num_heads, causal, use_rope",
    ),
    "no_eqx": (
        lambda f: (f / "checkpoints/0000000096.eqx").write_text("hello, world"),
        "is cut short or not an .eqx file: array 0",
    ),
    "no_config": (
        lambda f: (f / "config.json").unlink(),
        "cannot read .*config.json: No such file",
    ),
    "config": (
        lambda f: (f / "config.json").write_text("{"),
        "cannot read .*config.json: ",
    ),
    "config_list": (
        lambda f: (f / "config.json").write_text("[1]"),
        "config.json must be a JSON object, got list",
    ),
    "no_checkpoints": (
        lambda f: [file.unlink() for file in (f / "checkpoints").iterdir()],
        "checkpoints has no checkpoints named <sequences seen>.eqx",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_files_that_cannot_be_read(name, peer, tmp_path):
    spoil, message = BAD_FILES[name]
    folder = peer()
    spoil(folder)
    with pytest.raises(ValueError, match=message):
        load_run(folder)
    with pytest.raises(ValueError, match=message):
        import_run(folder, tmp_path / "out")
    assert {file.name for file in tmp_path.iterdir()} == {"run", "classes.h5"}


def test_no_folder(tmp_path):
    with pytest.raises(ValueError, match="cannot read .*nowhere/config.json: No such"):
        load_run(tmp_path / "nowhere")


MISFITS = {
    "d_model": ({"d_model": 32}, "d_model is 32 in the config, but 16 in .*000.eqx"),
    "labels": ({"model_output_classes": 6}, "model_output_classes is 6 .*, but 5 in"),
    "depth": ({"depth": 3}, "depth is 3 in the config, but 2 in"),
    "num_heads": ({"num_heads": 4}, "num_heads is 4 in the config, but 2 in"),
    "no_norm": ({"no_norm": True}, "no_norm is True in the config, but False in"),
    "not_causal": ({"not_causal": True}, "not_causal is True in the config, but False"),
    "sin_time": ({"sin_time": 30.0}, "sin_time is 30.0 in the config, but 10000.0 in"),
    "mlp": ({"mlp_ratio": 4.0}, "mlp_ratio is 4.0 in the config, but None in"),
    "ape": ({"pos_embedding_type": "ape"}, "pos_embedding_type is 'ape' .* 'rope' in"),
    "data": ({"data_type": "onehot"}, "data_type is 'onehot' .*, but 'file' in"),
    "type": ({"depth": "two"}, "icl-dynamics config: depth: wanted int, got 'two'"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_configs_that_do_not_fit_the_weights(name, peer):
    change, message = MISFITS[name]
    file = peer() / "checkpoints/00000000000.eqx"
    with pytest.raises(ValueError, match=message):
        load_model(CONFIG | change, file)


CONTRADICTIONS = {
    "num_heads": (
        {"num_heads": 4},
        r"num_heads must be one in all blocks, got \[4, 2\]",
    ),
    "causal": ({"causal": False}, "causal must be one in all blocks"),
    "scale": ({"depth": 1, "scale": 0.5}, "scale of 2 heads must be 0.353553, got 0.5"),
    "use_rope": (
        {"depth": 1, "positions": "ape", "use_rope": True},
        "it has a pos_embed",
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_checkpoints_that_contradict_themselves(name, tmp_path):
    scalars, message = CONTRADICTIONS[name]
    structure = {"depth": scalars.pop("depth", 2)}
    structure["pos_embedding_type"] = scalars.pop("positions", "rope")
    config = CONFIG | structure
    weights = random_weights(config, np.random.default_rng(1))
    write_eqx(tmp_path / "0.eqx", weights, 0, config, **scalars)
    with pytest.raises(ValueError, match=message):
        load_model(config, tmp_path / "0.eqx")


@pytest.mark.parametrize("name", ["all", "no_norm_mlp", "sinusoidal"])
def test_a_run_that_continues_another_has_its_model(name, peer, tmp_path):
    """Its own config may say another structure, as the command line had no options."""
    folder = peer(**STRUCTURES[name])
    before, config = load_run(folder)
    own = {
        "depth": 5,
        "num_heads": 16,
        "d_model": 32,
        "sin_time": 7.0,
        "mlp_ratio": 9.0,
    }
    own |= {"load_from_ckpt": "first/0.eqx", "load_from_ckpt_cfg": "first/config.json"}
    (folder / "config.json").write_text(json.dumps(config | own))
    after, _ = load_run(folder)
    examples, labels = jnp.ones((3, DIM)), jnp.array([0, 1, 0])
    assert np.array_equal(before(examples, labels), after(examples, labels))


CONTINUED = DATA.parent / "icl_dynamics_continued"


@pytest.mark.skipif(not CONTINUED.exists(), reason="the reference runs are not here")
def test_a_continued_run_has_the_logits_of_the_public_program(tmp_path):
    """Its config says 8 heads, and its weights have 4."""
    wanted = np.load(CONTINUED / "reference.npz")
    inputs = wanted["examples"], wanted["labels"]
    model, config = load_run(CONTINUED / "second")
    assert config["num_heads"] == 8
    np.testing.assert_allclose(jax.vmap(model)(*inputs), wanted["logits"], atol=1e-5)
    with pytest.raises(ValueError, match="num_heads is 8 in the config, but 4 in"):
        load_model(
            config | {"load_from_ckpt_cfg": None},
            CONTINUED / "second/checkpoints/00000000640.eqx",
        )
    source = tmp_path / "second"
    shutil.copytree(CONTINUED / "second", source)
    write_log(source / "log.h5", (0, 64, 640), (32.0, 64.0, 640.0))
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = np.zeros((30, 3, 12), np.float32)
    notes = import_run(source, tmp_path / "out", tmp_path / "data.h5")
    assert any("num_heads is 4 in the checkpoints" in note for note in notes)
    ours = icl.load(tmp_path / "out").model
    np.testing.assert_allclose(jax.vmap(ours)(*inputs), wanted["logits"], atol=1e-5)


def test_bfloat16_weights_are_read(tmp_path):
    weights = random_weights(CONFIG, np.random.default_rng(1))
    write_eqx(tmp_path / "0.eqx", weights, 0, cast=jnp.bfloat16)
    model = load_model(CONFIG, tmp_path / "0.eqx")
    rounded = {k: x.astype(jnp.bfloat16).astype(np.float32) for k, x in weights.items()}
    examples, labels = jnp.ones((3, DIM)), jnp.array([0, 1, 0])
    expected, _ = forward(examples, labels, rounded, CONFIG)
    np.testing.assert_allclose(model(examples, labels), expected[::2], atol=1e-4)


def test_unknown_checkpoints_list_what_there_is(peer):
    folder = peer()
    with pytest.raises(ValueError, match="no checkpoint 7; it has 0, 96"):
        load_run(folder, 7)
    for n in range(1, 21):
        (folder / f"checkpoints/{n:011d}.eqx").touch()
    with pytest.raises(ValueError, match="it has 22: 0, 1, .*, 8, …, 96"):
        load_run(folder, 77)


# Whole runs


def test_import_keeps_models_and_log(imported):
    folder, out, notes = imported
    assert notes == ("evaluation sets drawn anew; the log is about others: 'icl'",)
    assert json.loads((out / "imported.json").read_text())["config"] == CONFIG
    rng = np.random.default_rng(2)
    examples = jnp.asarray(rng.standard_normal((3, DIM)), jnp.float32)
    labels = jnp.array([3, 1, 3])
    for checkpoint in (0, 96, -1):
        trained = icl.load(out, checkpoint)
        expected = load_run(folder, checkpoint)[0](examples, labels)
        assert np.array_equal(trained.model(examples, labels), expected)
    assert trained.run.checkpoints == [0, 96]
    log = trained.run.log
    assert log.events.tolist() == [0, 32, 96]
    assert log.train["loss"].tolist() == [0.5, 1.5, 2.5]
    assert log.train["grad_norm"].tolist() == [1.5, 2.5, 3.5]
    assert not log.train["grad_batch_stddev"].any()
    rows = log.evaluations["icl"]
    place = 10.0 * np.arange(3)[:, None] + np.arange(6)
    np.testing.assert_array_equal(rows["loss"], place)
    np.testing.assert_array_equal(rows["accuracy"], place % 2 == 0)
    np.testing.assert_allclose(rows["context_probability"], place / 100)
    np.testing.assert_array_equal(rows["margin"], -place)
    assert trained.experiment.training.evaluate_at == Every(32)
    assert trained.experiment.training.checkpoint_at == Every(64)


def test_imported_runs_evaluate_and_replay(imported):
    trained = icl.load(imported[1])
    batch = trained.evaluations["icl"]
    assert batch.examples.shape == (6, 3, DIM)
    scores = evaluate(trained.model, trained.task, batch)
    result = icl.replay(
        trained,
        {
            "strength": measures.induction_strength(1),
            "loss": measures.task_metric(trained.task, "loss"),
        },
        data="icl",
    )
    assert result.sequences.tolist() == [0, 96]
    assert result["strength"].shape == (2, 2)
    assert result["loss"][-1] == pytest.approx(float(scores["loss"].mean()), abs=1e-4)


def test_a_log_that_was_appended_to(peer, tmp_path):
    """The run restarted at 32 after 96, and has no log before 64."""
    folder = peer()
    write_log(folder / "log.h5", (0, 32, 96, 32, 64), (96.0, 160.0, 96.0, 128.0))
    import_run(folder, tmp_path / "out")
    log = icl.Run(tmp_path / "out").log
    assert log.events.tolist() == [0, 32, 64, 96]
    assert log.evaluations["icl"]["loss"][:, 0].tolist() == [0, 30, 40, 20]
    np.testing.assert_array_equal(log.train["loss"], [np.nan, np.nan, 2.5, 3.5, 1.5])


def test_logs_that_do_not_match_up(peer, tmp_path):
    folder = peer()
    with h5py.File(folder / "log.h5", "a") as file:
        del file["icl/margin"]
        file["icl/margin"] = np.zeros((2, 6))
    with pytest.raises(ValueError, match="icl/margin has 2 rows for 3 evaluations"):
        import_run(folder, tmp_path / "out")
    (folder / "log.h5").write_bytes(b"no HDF5")
    with pytest.raises(ValueError, match="log.h5 is not a log of icl-dynamics"):
        import_run(folder, tmp_path / "out")
    (folder / "log.h5").unlink()
    import_run(folder, tmp_path / "out")
    assert len(icl.Run(tmp_path / "out").log.events) == 0


COOPETITION = {
    "fs_relabel": 0,
    "model_output_classes": 6,
    "pos_embedding_type": "ape",
    "pe_names": [],
    "load_eval_data": ["/moved/default_eval/eval_data.h5", "/moved/gone/eval_data.h5"],
    "load_from_ckpt": "ciwl_only/00004000000.eqx",
}


def test_class_labels_and_sets_from_a_file(peer, tmp_path):
    """Six labels for eight classes; the evaluation sets come from another run."""
    folder = peer(**COOPETITION)
    (tmp_path / "default_eval").mkdir()
    rng = np.random.default_rng(3)
    labels = jnp.asarray(rng.integers(0, 6, (4, 3)))
    examples = jnp.asarray(rng.standard_normal((4, 3, DIM)), jnp.float32)
    sets = {"flip_icl": Sequence(examples, labels, labels)}
    save_batches(tmp_path / "default_eval/eval_data.h5", sets)
    notes = import_run(folder, tmp_path / "out")
    assert [note.split(":")[0] for note in notes] == [
        "/moved/gone/eval_data.h5 is not here",
        "the run began from ciwl_only/00004000000.eqx; if trained again from its "
        "config here, it begins fresh",
        "2 labels added, never predicted, so that each class has one",
    ]
    trained = icl.load(tmp_path / "out")
    model, _ = load_run(folder)
    batch = trained.evaluations["flip_icl"]
    assert np.array_equal(batch.examples, examples)
    ours = jax.vmap(trained.model)(examples, labels)
    assert np.array_equal(ours[..., :6], jax.vmap(model)(examples, labels))
    padded = evaluate(trained.model, trained.task, batch)
    plain = evaluate(model, trained.task, batch)
    for name, values in plain.items():
        np.testing.assert_allclose(padded[name], values, rtol=1e-6, err_msg=name)


def test_sets_that_the_run_saved(peer, tmp_path):
    folder = peer(save_eval_data="eval_data.h5")
    examples = jnp.ones((4, 3, DIM))
    labels = jnp.ones((4, 3), int)
    sets = {"icl": Sequence(examples, labels, labels)}
    save_batches(folder / "eval_data.h5", sets)
    assert import_run(folder, tmp_path / "out") == ()
    batch = icl.load(tmp_path / "out").evaluations["icl"]
    assert np.array_equal(batch.examples, examples)


def convert(peer, **changes):
    folder = peer(**changes)
    config = json.loads((folder / "config.json").read_text())
    experiment = experiment_from(config, read_options(config), folder, None)
    assert from_json(type(experiment), to_json(experiment)) == experiment
    return experiment


def test_settings_of_the_config(peer):
    experiment = convert(
        peer,
        fs_relabel=0,
        zipf_alpha=1.0,
        noise_scale_train=0.5,
        match_query_and_distractors=True,
        train_context_len=4,
        mixing_coeffs=[3.0, 0.0, 1.0],
        pt_burstiness=[2, 9, 1],
        pt_unique_rest=[0, 0, 1],
        optimizer="sgd",
        lr=0.1,
        init_seed=7,
        train_seed=8,
        eval_seed=9,
        train_microbs=16,
        eval_sched=[0, 10, 500],
        ckpt_sched=[200],
        init_rescale=0.5,
        pe_noise_scale=[0.25],
        pe_burstiness=[2],
    )
    assert experiment.task.context == Mixture(
        (Context(4, 2, distractor=True), Context(4, 1, True, unique_rest=True)),
        (0.75, 0.25),
    )
    assert experiment.task.distribution == Zipf(1.0)
    assert experiment.task.exemplar_choice == Matched()
    assert experiment.task.labels == ClassLabels()
    assert experiment.task.noise == 0.5
    assert experiment.task.class_split == Split(6, 0, 2, seed=None)
    assert experiment.optimizer == SGD(Constant(0.1))
    seeds = experiment.init_seed, experiment.train_seed, experiment.eval_seed
    assert seeds == (7, 8, 9)
    training = experiment.training
    assert training.microbatch_size == 16
    assert training.evaluate_at == Exactly((0, 10, 96))
    assert training.checkpoint_at == Exactly(())
    assert experiment.model.init_scale == 0.5
    (only,) = experiment.evaluations.values()
    assert (only.noise, only.distribution) == (0.25, UniformClasses())
    assert only.context == Context(4, 2, distractor=True)
    experiment.build()


def test_evaluation_sets_of_the_config(peer):
    """The five sets of Singh et al. 2025, and parts of others."""
    experiment = convert(
        peer,
        fs_relabel=0,
        model_output_classes=8,
        exemplar_split=[3, 0, 0],
        pe_names=["train_eval", "iwl_copy_avail", "flip_icl", "icl", "pure_iwl", "new"],
        pe_classes=["train"] * 5 + ["test"],
        pe_exemplars=["train"] * 5 + ["all"],
        pe_burstiness=[1, 0, 1, 1, 0, 2],
        pe_fs_relabel_scheme=["None", "None", "flip", "01", "None", "None"],
        pe_no_support=[0, 1, 0, 0, 1, 0],
        pe_unique_rest=[0, 1, 0, 0, 1, 0],
        pe_assign_query_label_random=[0, 1, 0, 0, 0, 0],
        pe_context_len=[2, 2, 2, 2, 2, 4],
    )
    sets = experiment.evaluations
    absent = Context(2, 0, no_support=True, unique_rest=True)
    assert sets["train_eval"].context is None
    assert sets["iwl_copy_avail"].context == absent
    assert sets["iwl_copy_avail"].labels == QueryLabelOnContext()
    assert sets["flip_icl"].labels == FlippedLabels()
    assert sets["icl"].labels == Relabel(2)
    assert (sets["pure_iwl"].context, sets["pure_iwl"].labels) == (absent, None)
    assert sets["new"].context == Context(4, 2, distractor=True)
    assert (sets["new"].classes, sets["new"].exemplars) == ("test", "train")
    drawn = experiment.build().evaluations
    assert drawn["new"].examples.shape == (6, 5, DIM)


def test_held_out_label_pairs_are_the_runs(peer):
    """`permutation(PRNGKey(20), 10)` is 5 1 4 7 3 2 0 8 6 9 in JAX 0.4.26."""
    pairs = [(i, j) for i in range(5) for j in range(i + 1, 5)]
    experiment = convert(
        peer,
        fs_relabel_split=[0.7, 0.2, 0.1],
        pe_names=["train", "val", "test", "all"],
        pe_classes=["train"] * 4,
        pe_exemplars=["train"] * 4,
        pe_burstiness=[1] * 4,
        pe_fs_relabel_scheme=["train", "val", "test", "all"],
    )
    labels = {
        name: (experiment.task.labels if s.labels is None else s.labels)
        for name, s in experiment.evaluations.items()
    }
    found = {
        name: {tuple(sorted(pair)) for pair in own.pairs().tolist()}
        for name, own in labels.items()
        if name != "all"
    }
    assert found["test"] == {pairs[5]}
    assert found["val"] == {pairs[1], pairs[4]}
    assert found["train"] == {pairs[k] for k in (7, 3, 2, 0, 8, 6, 9)}
    assert labels["all"] == Relabel(5)


def test_where_the_rest_is_drawn_from_is_noted(peer, tmp_path):
    changes = {"fs_relabel": 0, "model_output_classes": 8, "train_context_len": 4}
    folder = peer(**changes, pe_no_support=[1])
    notes = import_run(folder, tmp_path / "out")
    assert notes[1].startswith("training: context items other than")
    assert len(notes) == 2


REFUSED = {
    "weight_decay": ({"weight_decay": 0.1}, "weight_decay must be 0"),
    "optimizer": ({"optimizer": "cosine"}, "optimizer must be adam or sgd, .*'cosine'"),
    "scheme": (
        {"pe_fs_relabel_scheme": ["some"]},
        "pe_fs_relabel_scheme must be None, .*, got 'some'",
    ),
    "rest": (
        {"train_context_len": 3},
        "fs_relabel is supported only if the query's class and a distractor fill",
    ),
    "alone": ({"pt_distract": [0]}, "fs_relabel is supported only if the query"),
    "assigned": (
        {"fs_relabel": 0, "assign_query_label_random": True},
        "assign_query_label_random is supported only with a burstiness of 0",
    ),
    "mixing": ({"mixing_coeffs": []}, "mixing_coeffs must be shares, got"),
    "kinds": ({"mixing_coeffs": [1, 1]}, "one entry for each of mixing_coeffs, got"),
    "burst": ({"pt_burstiness": [2]}, "pt_burstiness: burstiness 2 with a distractor"),
    "part": ({"pe_classes": ["all"]}, "pe_classes must be one part, .* got 'all' of"),
    "short": ({"pe_exemplars": []}, "pe_exemplars must have at least 1 entries, got 0"),
    "twice": (
        {"pe_names": ["a"] * 2, "pe_fs_relabel_scheme": "train"},
        "pe_names must all differ",
    ),
    "classes": (
        {"class_split": [5, 0, 2]},
        r"class_split \[5, 0, 2\] divides 7, but it holds 8",
    ),
    "three": ({"exemplar_split": [3]}, r"exemplar_split must be three sizes, got \[3"),
    "pairs": ({"fs_relabel_split": [1, 0]}, "fs_relabel_split must be three shares"),
    "file": ({"data_file": "no.h5"}, "data_file: there is no .*no.h5, .*as data"),
    "path": ({"data_path_in_file": "fea"}, "has no dataset 'fea'; did you mean 'feat'"),
    "labels": ({"fs_relabel": 4}, "model_output_classes must be at most the 4 labels"),
    "held out": ({"pe_fs_relabel_scheme": ["val"]}, "part 'val' needs a split"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_imported(name, peer, tmp_path):
    change, message = REFUSED[name]
    folder = peer()
    (folder / "config.json").write_text(json.dumps(CONFIG | change))
    with pytest.raises(ValueError, match=message):
        import_run(folder, tmp_path / "out")
    assert {file.name for file in tmp_path.iterdir()} == {"run", "classes.h5"}


def test_data_from_elsewhere(peer, tmp_path):
    folder = peer()
    with h5py.File(tmp_path / "wide.h5", "w") as file:
        file["feat"] = np.ones((8, 3, DIM + 1), np.float32)
    with pytest.raises(ValueError, match=r"exemplar.weight of shape \[16, 7\], but"):
        import_run(folder, tmp_path / "out", tmp_path / "wide.h5")
    (tmp_path / "classes.h5").rename(tmp_path / "moved.h5")
    import_run(folder, tmp_path / "out", tmp_path / "moved.h5")
    assert icl.load(tmp_path / "out").experiment.data.file == str(tmp_path / "moved.h5")


def test_nothing_is_overwritten_or_left_half(peer, tmp_path, monkeypatch):
    folder = peer()
    (tmp_path / "there").mkdir()
    with pytest.raises(ValueError, match="there exists and is not overwritten"):
        import_run(folder, tmp_path / "there")
    assert not any((tmp_path / "there").iterdir())

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("icl.runs.log.write_hdf5", full)
    with pytest.raises(ValueError, match="cannot write .*out: No space left on device"):
        import_run(folder, tmp_path / "out")
    monkeypatch.setattr("icl.runs.writer.write_bytes", full)
    with pytest.raises(
        ValueError, match="cannot write .*out: No space left on device$"
    ):
        import_run(folder, tmp_path / "out")
    left = {file.name for file in tmp_path.iterdir()}
    assert left == {"run", "classes.h5", "there"}


def test_clamps_of_training_are_edits(peer, tmp_path, monkeypatch):
    seen = []

    def texts_from_config(config, folder):
        seen.append((config["opto_ablate_heads"], folder))
        return ("Zero('blocks.1.attn.z', head=1)",)

    where = "icl.compat.icl_dynamics._experiment.texts_from_config"
    monkeypatch.setattr(where, texts_from_config)
    folder = peer(opto_ablate_heads=["1:1"])
    import_run(folder, tmp_path / "out")
    assert seen == [(["1:1"], folder)]
    assert icl.load(tmp_path / "out").edits == (opto.Zero("blocks.1.attn.z", head=1),)


def test_command(peer, tmp_path, capsys):
    import_command([str(peer()), "--out", str(tmp_path / "out")])
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"{tmp_path / 'out'}: 2 checkpoints, 3 evaluations"
    assert out[1].startswith("note: evaluation sets drawn anew")
    with pytest.raises(SystemExit):
        import_command([str(tmp_path / "run")])
    assert "--out" in capsys.readouterr().err


def test_split_in_a_given_order():
    split = Split(3, 2, 1, seed=None, order=(7, 0, 3, 9, 2, 5))
    parts = {name: split.part(name, 10).tolist() for name in ("train", "val", "test")}
    assert parts == {"train": [0, 3, 7], "val": [2, 9], "test": [5]}
    assert from_json(Split, json.loads(json.dumps(to_json(split)))) == split
    with pytest.raises(ValueError, match="order names thing 9, but there are only 9"):
        split.part("train", 9)
    with pytest.raises(ValueError, match="order needs seed=None, got seed=0"):
        Split(1, order=(0,))
    for order in ((0,), (0, 0)):
        with pytest.raises(ValueError, match="order must list 2 different things"):
            Split(2, seed=None, order=order)
    with pytest.raises(ValueError, match="order must have numbers of at least 0"):
        Split(2, seed=None, order=(0, -1))


# The reference run, computed by icl-dynamics itself


def their_names():
    """Their activation keys and our sites; other keys are inputs or duplicates."""
    names = {
        "tok_embedding": "tok_embed",
        "embedding": "embed",
        "transformer_output/x": "embed",
        "transformer_output/pre_unembed": "final.normed",
        "transformer_output/out": "final.normed",
        "unembedding": "logits",
    }
    in_block = {
        "x": "resid_pre",
        "norm_inp": "attn.normed",
        "attn_output/x": "attn.normed",
        "attn_output/pre_rope_q": "attn.q_pre",
        "attn_output/pre_rope_k": "attn.k_pre",
        "attn_output/q": "attn.q",
        "attn_output/k": "attn.k",
        "attn_output/v": "attn.v",
        "attn_output/attn_pre_softmax": "attn.scores",
        "attn_output/attn_scores": "attn.pattern",
        "attn_output/attn_post_drop": "attn.pattern",
        "attn_output/values_pre_proj": "attn.z",
        "attn_output/values_post_proj": "attn.out",
        "attn_output/out": "attn.out",
        "residual_post_attn": "resid_mid",
        "out": "resid_post",
    }
    for i in range(2):
        for theirs, ours in in_block.items():
            names[f"transformer_output/block_outputs/{i}/{theirs}"] = (
                f"blocks.{i}.{ours}"
            )
    return names


@reference
def test_every_activation_equals_theirs():
    model, _ = load_run(DATA / "run")
    saved = np.load(DATA / "activations.npz")
    inputs = saved["examples"], saved["labels"]
    out, record = opto.run(model, *inputs, record="**")
    np.testing.assert_allclose(out, saved["out"], atol=2e-5)
    names = their_names()
    for theirs, ours in names.items():
        value = np.asarray(record[ours])
        if ours.endswith(".z"):
            value = value.swapaxes(1, 2)  # There, heads are side by side.
        expected = saved[theirs].reshape(value.shape)
        np.testing.assert_allclose(value, expected, atol=2e-5, err_msg=theirs)
    # The tokens before interleaving; q, k and v are one array.
    embedded = np.asarray(record["tok_embed"])
    exemplars, labels = saved["example_embedding"], saved["label_embedding"]
    np.testing.assert_allclose(embedded[:, ::2], exemplars, atol=2e-5)
    np.testing.assert_allclose(embedded[:, 1::2], labels[:, :-1], atol=2e-5)
    for i in range(2):
        both = [
            np.asarray(record[f"blocks.{i}.attn.{n}"]) for n in ("q_pre", "k_pre", "v")
        ]
        qkv = saved[f"transformer_output/block_outputs/{i}/attn_output/qkv"]
        np.testing.assert_allclose(np.stack(both, 1), qkv, atol=2e-5)
    # Only the inputs are left, and an MLP that this model does not have.
    covered = {*names, "examples", "labels", "out"}
    left = {key.split("/")[-1] for key in saved if key not in covered}
    assert left == {
        "example_embedding",
        "label_embedding",
        "onehot_labels",
        "pos_embedding",
        "qkv",
        "mlp",
        "norm_residual_post_attn",
    }


@reference
def test_the_reference_run_is_a_run(tmp_path):
    notes = import_run(DATA / "run", tmp_path / "out")
    assert notes == ("evaluation sets drawn anew; the log is about others: 'icl'",)
    trained = icl.load(tmp_path / "out")
    assert trained.run.checkpoints == [0, 32000, 64000]
    saved = np.load(DATA / "activations.npz")
    inputs = jnp.asarray(saved["examples"]), jnp.asarray(saved["labels"])
    out = jax.vmap(trained.model)(*inputs)
    np.testing.assert_allclose(out, saved["out"], atol=2e-5)
    _check_reference_log(trained.run.log)

    batch = trained.evaluations["icl"]
    scores = evaluate(trained.model, trained.task, batch)
    assert scores["accuracy"].mean() > 0.99
    result = icl.replay(
        trained,
        {
            "accuracy": measures.task_metric(trained.task, "accuracy"),
            "strength": measures.induction_strength(1),
        },
        data="icl",
    )
    assert result["accuracy"][0] < 0.4
    assert result["accuracy"][-1] == pytest.approx(float(scores["accuracy"].mean()))
    assert result["strength"].max(1)[0] < 0.1 < 0.5 < result["strength"].max(1)[-1]


def _check_reference_log(log):
    with h5py.File(DATA / "run/log.h5") as file:
        np.testing.assert_array_equal(log.events, file["eval_iter"])
        np.testing.assert_allclose(log.train["loss"], file["train_loss"], rtol=1e-6)
        rows = log.evaluations["icl"]
        assert len(rows) == len(file["icl"])
        np.testing.assert_array_equal(rows["loss"], file["icl/loss"])
        np.testing.assert_array_equal(rows["accuracy"], file["icl/acc"])
    # Identities between the metrics.
    within = rows["in_context_probability"] * rows["context_probability"]
    np.testing.assert_allclose(rows["probability"], within, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(np.exp(-rows["loss"]), rows["probability"], rtol=1e-4)
    ours = classification(jnp.zeros(3), jnp.array(0), jnp.array([0, 1]))
    assert set(rows) <= set(ours)
