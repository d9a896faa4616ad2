"""Every written file has a checksum: damage is refused, and `icl check` finds it."""

import dataclasses
import io
import json
import shutil
import threading
import warnings
from pathlib import Path

import equinox as eqx
import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from older import unsealed, without_checksum
from small import small

import icl
from icl import measures
from icl.batches import example_of, load_batches
from icl.cli import guarded
from icl.cli.check import check
from icl.cli.evaluate import evaluate
from icl.compat.icl_dynamics import _import
from icl.data import digest, HDF5Classes, LowRankClasses, save_source
from icl.experiments import Start
from icl.files import temporary_of, write_bytes
from icl.runs import _file_states, Log, open_run, read_object, Run, RunWriter
from icl.runs.checkpoints import CheckpointReader
from icl.training import Training
from icl.training._steps import initial_state
from icl.training.schedules import Every


PLAN = small(training=Training(64, 32, None, Every(32), Every(32)))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A run with three checkpoints, heads from another run, and a file of classes."""
    place = tmp_path_factory.mktemp("runs")
    source = LowRankClasses(num_classes=60, num_exemplars=3, dim=16)
    save_source(source, place / "classes.h5")
    data = HDF5Classes(str(place / "classes.h5"))
    icl.run_experiment(small(data=data, training=PLAN.training), place / "run")
    return place / "run"


@pytest.fixture
def run(original, tmp_path):
    return Path(shutil.copytree(original, tmp_path / "run"))


@pytest.fixture(scope="module")
def templates(original):
    """A model, a state and an example like the run's, and the digest of its data."""
    trained = icl.load(original)
    member = trained.experiment.build()
    example = example_of(trained.task)
    state = initial_state(member, 32)
    return trained.model, state, example, digest(trained.experiment.data)


def leaves(tree):
    arrays = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    return [(str(x.dtype), x.shape, np.asarray(x).tobytes()) for x in arrays]


def everything(folder, templates):
    """All that a reader gets from a run, as comparable values."""
    model, state, example, data = templates
    run, writer = Run(folder), RunWriter(folder)
    reader = CheckpointReader(run, model)
    log = run.log
    run.check_data(data)
    sets = load_batches(
        folder / "eval_data.h5", example, owner=run.owner(folder / "eval_data.h5")
    )
    return {
        "config": run.config,
        "meta": (run.plugins, read_object(folder / "meta.json")),
        "train": leaves(log.train),
        "log": (log.events.tolist(), leaves(log.evaluations), [*log.evaluations]),
        "sets": (leaves(sets), [*sets]),
        "models": {n: leaves(run.load(model, n)) for n in run.checkpoints},
        "replayed": {
            n: leaves(reader.arrays(run.read_checkpoint(n).content, n))
            for n in run.checkpoints
        },
        "states": {n: leaves(writer.load_state(n, state)) for n in run.resume_points},
    }


def written(folder):
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return [file for file in files if file.name != ".lock"]


def test_no_flip_is_used(run, templates):
    """Tries 200 random flips, equally many in each kind of file."""
    rng = np.random.default_rng(0)
    whole = everything(run, templates)
    kinds = {}
    for file in written(run):
        kind = file.parent.name, file.suffix, file.name[:4]
        kinds.setdefault(kind, []).append(file)
    assert len(kinds) >= 7
    kinds = [*kinds.values()]
    for trial in range(200):
        files = kinds[trial % len(kinds)]
        file = files[rng.integers(len(files))]
        content = file.read_bytes()
        flipped = bytearray(content)
        # Also at the end, where the checksum is.
        last = trial % 3 == 0 and file.suffix in (".eqx", ".h5")
        at = rng.integers(len(content) - 64 if last else 0, len(content))
        flipped[at] ^= 1 << rng.integers(8) if trial % 2 else rng.integers(1, 256)
        file.write_bytes(flipped)
        with pytest.raises(ValueError, match=file.name) as caught:
            everything(run, templates)
        assert "\n" not in str(caught.value)
        file.write_bytes(content)
    assert everything(run, templates) == whole


def test_files_that_were_cut_or_are_of_another_run(run, templates):
    rng = np.random.default_rng(1)
    for file in written(run):
        content = file.read_bytes()
        cuts = [*range(1, 65), *rng.integers(1, len(content), 3)]
        some = [content[:-cut] for cut in cuts[:: 5 if len(content) > 500 else 20]]
        some += [content[:-64], content + b"more", bytes(len(content))]
        for damaged in some:
            file.write_bytes(damaged)
            with pytest.raises(ValueError, match=file.name):
                everything(run, templates)
        file.write_bytes(content)


def test_a_flip_in_a_checksum_is_no_older_file(tmp_path):
    """A damaged or cut checksum does not pass as an older file."""
    file = tmp_path / "x.h5"
    save_source(LowRankClasses(num_classes=3, num_exemplars=2, dim=4), file)
    content = file.read_bytes()
    damaged = [content[:-cut] for cut in range(1, 93)]
    for bit in range(8 * (len(content) - 96), 8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(flipped))
    for each in damaged:
        file.write_bytes(each)
        with pytest.raises(ValueError, match="x.h5"):
            HDF5Classes(str(file)).load()
    file.write_bytes(content[:-96])  # As an older version wrote it.
    HDF5Classes(str(file)).load()


def test_other_programs_read_the_files(run, templates):
    model = templates[0]
    ours = Run(run).load(model)
    theirs = eqx.tree_deserialise_leaves(Run(run).checkpoint_file(64), model)
    assert leaves(ours) == leaves(theirs)
    with h5py.File(run / "log.h5") as file:
        assert file["train/loss"][()].tolist() == Run(run).log.train["loss"].tolist()


def test_a_config_that_was_edited_is_refused(run, tmp_path):
    config = json.loads((run / "config.json").read_text())
    text = json.dumps({**config, "train_seed": 9}, indent=2)
    (run / "config.json").write_text(text)
    with pytest.raises(
        ValueError, match=r"config.json is not what .* edit a copy"
    ) as e:
        icl.load(run)
    assert "\n" not in str(e.value)
    (tmp_path / "copy.json").write_text(text)
    assert read_object(tmp_path / "copy.json")["train_seed"] == 9


def test_a_text_file_that_is_gone(run):
    (run / "data.sha256").unlink()
    with pytest.raises(ValueError, match="data.sha256 is gone, but the run"):
        icl.load(run)


def test_sets_that_are_gone_are_drawn_anew_with_a_warning(original, run):
    (run / "eval_data.h5").unlink()
    (run / "resume/000000000064.eqx").unlink()
    experiment = icl.load(original).experiment
    with pytest.warns(
        UserWarning, match="eval_data.h5 is gone: this version of JAX draws"
    ):
        icl.run_experiment(experiment, run, resume=True)


# icl check


def table(capsys, *runs):
    status = guarded("icl", lambda: check([*map(str, runs)]))
    captured = capsys.readouterr()
    lines = [line.split() for line in captured.out.splitlines() if line[:2] == "  "]
    states = {" ".join(x[:-1]): x[-1] for x in lines if x[-1] != "state"}
    return status, captured.out, states, captured.err


def test_check_finds_nothing_in_a_whole_run(run, capsys):
    status, out, states, _ = table(capsys, run)
    assert status == 0
    assert out.startswith(f"{run}: 11 files, none damaged\n")
    assert {*states.values()} == {"whole"}
    assert {"config.json", "checkpoints/ (3)", "resume/ (2)"} <= states.keys()


def test_check_finds_each_damaged_and_missing_file(run, capsys):
    icl.replay(run, {"s": measures.induction_strength()})
    for file in written(run):
        content = file.read_bytes()
        name = file.relative_to(run).as_posix()
        at = len(content) // 2
        file.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        status, out, _, _ = table(capsys, run)
        assert status == 1
        assert f"  {name} " in out
        assert next(x for x in out.splitlines() if f"  {name} " in x).split()[1] == (
            "damaged"
        )
        file.unlink()
        status, out, _, _ = table(capsys, run)
        expected = name.partition("/")[0] not in ("replays", "resume")
        expected &= name != "checksums.sha256"
        lines = [x.split()[-1] for x in out.splitlines() if f"  {name} " in x]
        assert lines == (["missing"] if expected else [])
        assert status == int(expected)
        file.write_bytes(content)
    assert table(capsys, run)[0] == 0


def test_check_of_several_and_of_older_runs(original, run, capsys):
    for file in written(unsealed(run)):
        if file.suffix in (".h5", ".eqx"):
            without_checksum(file)
    status, out, states, _ = table(capsys, original, run)
    assert status == 0
    assert f"{original}: 11 files" in out
    assert f"{run}: 10 files" in out
    assert "no checksum" in out
    for name in ("log.h5", "checkpoints/000000000032.eqx"):
        content = (run / name).read_bytes()
        (run / name).write_bytes(content[:-9])
        assert table(capsys, run)[0] == 1
        (run / name).write_bytes(content)


def test_check_reads_all_of_older_files(run, capsys):
    """A log with HDF5's own checksums, and a file whose first entry is an array."""
    with h5py.File(run / "log.h5") as file:
        rows = {name: file[name][()] for name in ("train/iter", "train/loss")}
    with h5py.File(unsealed(run) / "log.h5", "w") as file:
        for name, x in rows.items():
            file.create_dataset(name, data=x, fletcher32=True, chunks=x.shape)
        place = file["train/loss"].id.get_chunk_info(0).byte_offset
    (run / "replays").mkdir(exist_ok=True)
    with h5py.File(run / "replays" / "old.h5", "w") as file:
        file["array"] = np.arange(5.0)
    assert table(capsys, run)[0] == 0
    content = bytearray((run / "log.h5").read_bytes())
    content[place] ^= 1
    (run / "log.h5").write_bytes(content)
    status, out, _, _ = table(capsys, run)
    assert status == 1
    assert "log.h5            damaged" in out


def test_check_of_a_run_that_has_just_begun(run, capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(RunWriter, "save_checkpoint", stop)
    begun = run.parent / "begun"
    with pytest.raises(KeyboardInterrupt):
        icl.run_experiment(Run(run).read(icl.Experiment), begun)
    assert Run(begun).resume_points == [0]
    assert table(capsys, begun)[0] == 0


def test_check_of_a_file_that_goes_away_meanwhile(run, capsys, monkeypatch):
    owner = _file_states.owner_of

    def gone(file):
        if "resume" in str(file):
            file.unlink()
        return owner(file)

    monkeypatch.setattr(_file_states, "owner_of", gone)
    assert table(capsys, run)[0] == 0


def test_check_of_a_config_that_is_not_understood(run, capsys):
    config = unsealed(run) / "config.json"
    text = config.read_text()
    config.write_text(text.replace('"checkpoint_at"', '"checkpoints_at"'))
    status, out, _, _ = table(capsys, run)
    assert status == 1
    assert out.count("config.json") == 1
    assert "not understood" in out


def test_a_whole_file_of_another_run_or_moment_is_refused(run, templates, capsys):
    other = run.parent / "other"
    experiment = dataclasses.replace(Run(run).read(icl.Experiment), init_seed=9)
    icl.run_experiment(experiment, other)
    last, first = (f"checkpoints/{n:012}.eqx" for n in (64, 0))
    points = [f"resume/{n:012}.eqx" for n in Run(run).resume_points]
    copies = [(other, name, name) for name in (last, points[-1], "log.h5")]
    copies += [(run, first, last), (run, points[0], points[-1])]
    for source, name, place in copies:
        content = (run / place).read_bytes()
        shutil.copyfile(source / name, run / place)
        with pytest.raises(ValueError, match="another run's file, or it was renamed"):
            everything(run, templates)
        assert table(capsys, run)[0] == 1
        (run / place).write_bytes(content)
    everything(run, templates)
    # A file outside of its run is read without a check of its owner.
    shutil.copyfile(run / "eval_data.h5", run.parent / "sets.h5")
    assert load_batches(run.parent / "sets.h5", templates[2])


def test_checkpoints_after_the_log_are_not_missed(run, capsys):
    """An unfinished run needs only the checkpoints that are due."""
    for part in ("checkpoints", "resume"):
        (run / part / "000000000064.eqx").unlink()
    assert table(capsys, run)[0] == 0  # It resumes from 0: later files do not count.


# icl eval


def test_eval_says_which_checkpoint(run, capsys):
    evaluate([str(run), "--checkpoint", "32"])
    out, err = capsys.readouterr()
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert rows["checkpoint"] == ["32", "32"]
    assert rows["out_of_context_loss"] == ["undefined", "undefined"]
    assert "inf" not in out
    told = "note: out_of_context_loss is undefined in train (20 of 20 sequences), "
    assert told in err
    evaluate([str(run)])
    assert "64      " in capsys.readouterr().out


def test_eval_without_what_decides_its_numbers(run):
    Run(run).checkpoint_file(64).unlink()
    with pytest.raises(ValueError, match=r"64, is gone; .* is checkpoint 32"):
        evaluate([str(run)])
    (run / "eval_data.h5").unlink()
    with (
        pytest.warns(UserWarning, match="eval_data.h5 is gone, and with it the sets"),
        pytest.raises(ValueError, match="has no evaluation sets"),
    ):
        evaluate([str(run), "--checkpoint", "32"])


def test_no_earlier_checkpoint_takes_the_place_of_the_last(run):
    assert icl.load(run).run.checkpoints == [0, 32, 64]
    Run(run).checkpoint_file(64).unlink()
    for load in (icl.load, lambda path: small(start=Start(str(path))).pinned()):
        with pytest.raises(
            ValueError, match="64, is gone; the latest that still exists is"
        ):
            load(run)
    assert icl.load(run, 32).model is not None


def test_edits_at_strength_0_of_an_earlier_version_are_left_out(run):
    file = unsealed(run) / "config.json"
    off = ["Zero('blocks.0.attn.z', head=0, strength=0)", "Freeze('blocks.0.attn.v')"]
    file.write_text(json.dumps({**json.loads(file.read_text()), "edits": off}))
    trained = icl.load(run)
    assert [edit.text() for edit in trained.edits] == off[1:]
    icl.run_experiment(trained.experiment, run, resume=True)
    with pytest.raises(ValueError, match="strength 0 changes nothing"):
        icl.run_experiment(trained.experiment, run.parent / "new")


def test_eval_of_a_model_that_answers_nan(run, templates, capsys):
    model = jax.tree.map(
        lambda x: x * jnp.nan if eqx.is_inexact_array(x) else x, templates[0]
    )
    with open_run(run, Run(run).config, resume=True) as writer:
        writer.save_checkpoint(64, model)
    evaluate([str(run)])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert len(rows) == 10
    assert {cell for row in rows for cell in row[1:]} == {"undefined"}


def test_older_logs_have_no_infinity(tmp_path):
    """They wrote infinity for an undefined loss, but never for `loss` itself."""
    log = Log()
    rows = np.float32([1.0, np.inf])
    log.add_evaluation(0, {"held": {"out_of_context_loss": rows, "loss": rows}})
    log.add_steps({"loss": rows})
    log.write(tmp_path / "log.h5", 8)
    held = Log.read(tmp_path / "log.h5").evaluations["held"]
    np.testing.assert_array_equal(held["out_of_context_loss"][0], [1, np.nan])
    np.testing.assert_array_equal(held["loss"][0], rows)


# Temporary files


def test_no_two_processes_share_a_temporary_file(tmp_path, monkeypatch):
    """Even if they have the same process id, in two containers."""
    names = {temporary_of(tmp_path / "log.h5") for _ in range(100)}
    assert len(names) == 100
    assert _import.temporary_of is temporary_of
    writers = [
        threading.Thread(target=write_bytes, args=(tmp_path / "x", bytes([k]) * 10**5))
        for k in range(8)
    ]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    content = (tmp_path / "x").read_bytes()
    assert content == content[:1] * 10**5
    assert [file.name for file in tmp_path.iterdir()] == ["x"]


def test_what_another_process_is_writing_is_left(run):
    """A report is written into the folder without a lock."""
    live, left = temporary_of(run / "report.html"), temporary_of(run / "log.h5")
    for file in (live, left):
        file.write_text("half")
    with open_run(run, Run(run).config, resume=True):
        assert live.exists()
        assert not left.exists()


# Precision


@pytest.fixture
def wide():
    """Enables 64 bits in all threads."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def test_weights_of_32_bits_are_read_as_64(run, capsys, wide):
    with pytest.warns(UserWarning, match="trained in float32; .* read as float64"):
        trained = icl.load(run)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # The warning comes once.
        icl.load(run)
    stored = np.load(io.BytesIO(Run(run).read_checkpoint(64).content))
    first = jax.tree.leaves(eqx.filter(trained.model, eqx.is_array))[0]
    assert (first.dtype, stored.dtype) == (np.float64, np.float32)
    assert np.array_equal(first, stored)
    found = icl.replay(trained, {"s": measures.induction_strength()})
    assert np.isfinite(found["s"][:, 0]).all()
    evaluate([str(run)])
    assert "undefined" in capsys.readouterr().out


def test_weights_of_64_bits_are_read_as_32(tmp_path):
    with jax.enable_x64(True):
        icl.run_experiment(PLAN, tmp_path / "wide")
    with pytest.warns(UserWarning, match="trained in float64; .* read as float32"):
        trained = icl.load(tmp_path / "wide")
    stored = np.load(io.BytesIO(trained.run.read_checkpoint(64).content))
    first = jax.tree.leaves(eqx.filter(trained.model, eqx.is_array))[0]
    assert (first.dtype, stored.dtype) == (np.float32, np.float64)
    assert np.array_equal(first, stored.astype(np.float32))
    found = icl.replay(trained, {"s": measures.induction_strength()})
    assert np.isfinite(found["s"][:, 0]).all()
    match = "has float64 arrays, .* continue with float32: resume with JAX_ENABLE_X64=1"
    with pytest.raises(ValueError, match=match):
        icl.run_experiment(PLAN, tmp_path / "wide", resume=True)


def test_a_run_of_32_bits_does_not_go_on_with_64(original, run, wide):
    experiment = Run(original).read(icl.Experiment)
    (run / "resume/000000000064.eqx").unlink()
    match = "has float32 arrays, .* continue with float64: resume with JAX_ENABLE_X64=0"
    with pytest.raises(ValueError, match=match):
        icl.run_experiment(experiment, run, resume=True)
    assert Run(run).checkpoints == [0, 32, 64]
