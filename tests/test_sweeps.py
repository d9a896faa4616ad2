"""The launcher: plans, packing, resuming, refusals. `slurm/` tests it on a cluster."""

import dataclasses
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import twelve

from icl import Start
from icl.checksums import checked
from icl.config import to_json
from sweeps import Trial
from sweeps.execute import _launch, plan
from sweeps.execute._cluster import read_cluster
from sweeps.execute._local import Debug
from sweeps.folder import Folder, Job
from sweeps.plan import (
    _cost,
    experiments_of,
    Group,
    groups,
    most_members,
    needs,
    pack,
    program,
    wanted,
)
from sweeps.plan._cost import bytes_of, Cost, measured, Program, seconds
from sweeps.study import list_trials


STUDY = Path(__file__).parent / "twelve.py"


def experiments(folder, scale="smoke", sets=()):
    folder = Folder(folder)
    trials = list_trials(twelve, scale, folder.path, None)
    return experiments_of(trials, sets, folder)


def planned(folder, *only, members=8):
    asked = wanted(Folder(folder), experiments(folder), only)
    return plan(Folder(folder), asked, Debug(), members, measure=False)


def sweeps(*arguments, **options):
    """Runs the command; returns its status, output and errors."""
    command = [sys.executable, "-m", "sweeps", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, **options)
    return done.returncode, done.stdout, done.stderr


def refused(capsys, *arguments):
    """What a refused command prints; its status is 2."""
    from sweeps.cli import main

    with pytest.raises(SystemExit) as stop:
        main(list(map(str, arguments)))
    captured = capsys.readouterr()
    assert stop.value.code == 2
    assert captured.out == ""
    return captured.err


def one_line(capsys, *arguments):
    """The one line that a refused command prints."""
    message = refused(capsys, *arguments)
    assert message.count("\n") == 1
    return message


# Plans


def test_needs_are_read_off_the_experiments(tmp_path):
    found = needs(experiments(tmp_path), tmp_path)
    assert found["seed-0"] == ()
    assert found["start-2"] == ("seed-2",)
    assert found["graft"] == ("seed-0",)
    assert found["again-1"] == ("start-1",)


def test_runs_of_one_program_and_level_are_one_group(tmp_path):
    runs = experiments(tmp_path)
    needed = needs(runs, tmp_path)
    found = [group.runs for group in groups(runs, needed, tmp_path)]
    assert found == [
        ("seed-0", "seed-1", "seed-2", "seed-3"),
        ("wide",),
        ("start-0", "start-1", "start-2", "start-3"),
        ("graft",),
        ("again-0", "again-1"),
    ]


@pytest.mark.parametrize(
    ("settings", "same"),
    [
        (["init_seed=9", "train_seed=8", "eval_seed=7"], True),
        (["optimizer.learning_rate.rate=0.5"], True),
        (["data.seed=3"], True),
        (["training.num_sequences=640"], False),
        (["task.noise=0.5"], False),
        (["edits=[\"Zero('blocks.1.attn.z', head=1)\"]"], False),
        (["optimizer.clip_norm=1.0"], False),
    ],
)
def test_what_makes_another_program(tmp_path, settings, same):
    plain = experiments(tmp_path)["seed-0"]
    other = experiments(tmp_path, sets=settings)["seed-0"]
    assert (program(plain, {}) == program(other, {})) == same


def test_edits_are_one_program_if_they_differ_in_numbers(tmp_path):
    base = experiments(tmp_path)["seed-0"]

    def with_edit(text):
        return program(dataclasses.replace(base, edits=(text,)), {})

    first = with_edit("Zero('blocks.1.attn.z', head=0)")
    assert first == with_edit("Zero('blocks.1.attn.z', head=1)")
    assert first == with_edit("Zero('blocks.1.attn.z', head=1, strength=0.5)")
    assert first != with_edit("Zero('blocks.1.attn.z', head=[0, 1])")
    assert first != with_edit("Zero('blocks.0.attn.z', head=0)")


def test_a_cap_divides_a_group_evenly(tmp_path):
    launch = planned(tmp_path, members=3)
    sizes = sorted(len(job.runs) for job in launch.jobs)
    assert sizes == [1, 1, 2, 2, 2, 2, 2]
    by_name = {job.name: job for job in launch.jobs}
    start = next(job for job in launch.jobs if "start-3" in job.runs)
    assert [by_name[need].runs for need in start.needs] == [("seed-2", "seed-3")]


@pytest.mark.parametrize(
    ("devices", "most", "sizes"),
    [(1, 9, [9]), (2, 9, [8, 1]), (2, 5, [4, 4, 1]), (4, 3, [3, 3, 3]), (16, 9, [9])],
)
def test_members_fill_the_cores(devices, most, sizes, tmp_path):
    base = experiments(tmp_path)["seed-0"]
    group = Group(tuple("abcdefghi"), base, own_data=False)
    jobs = pack([group], lambda _: most, devices, kept=[])
    assert [len(job.runs) for job in jobs] == sizes
    assert "".join(run for job in jobs for run in job.runs) == "abcdefghi"


def test_only_brings_what_is_needed(tmp_path):
    jobs = [job.runs for job in planned(tmp_path, "again-1").jobs]
    assert jobs == [("seed-1",), ("start-1",), ("again-1",)]


def test_the_last_checkpoint_is_the_planned_one(tmp_path):
    start = experiments(tmp_path)["again-0"].start
    assert start == Start(str(tmp_path / "start-0"), 1280)


def test_a_graft_of_a_checkpoint_file_has_no_number(tmp_path):
    """For icl-dynamics, the file is the checkpoint."""
    file = tmp_path / "5.eqx"
    file.touch()
    base = experiments(tmp_path)["seed-0"]
    grafted = dataclasses.replace(base, edits=(f"Graft({str(file)!r}, until=0)",))
    found = experiments_of([Trial("a", grafted)], (), Folder(tmp_path / "out"))
    assert found["a"].edits == (f"Graft(model={str(file)!r}, until=0)",)
    assert needs(found, tmp_path / "out") == {"a": ()}


# Refusals before anything is written


@pytest.mark.parametrize(
    ("run", "start", "match"),
    [
        ("seed-0", ("again-0", 1280), "runs need each other: .*seed-0 needs again-0"),
        ("start-0", ("seed-0", 700), "needs the checkpoint 700 of seed-0.* 640"),
        ("start-0", ("sed-0", 640), "needs sed-0, which is not a run of the study"),
        ("start-0", ("../gone", 640), "needs a missing checkpoint: .*gone is not a ru"),
    ],
)
def test_a_start_that_cannot_be_is_refused(tmp_path, run, start, match):
    found = experiments(tmp_path)
    donor, checkpoint = start
    started = Start(str(tmp_path / donor), checkpoint)
    found[run] = dataclasses.replace(found[run], start=started)
    with pytest.raises(ValueError, match=match):
        needs(found, tmp_path)


COMMANDS = [
    (["inducton", "--out", "out"], "did you mean 'induction'"),
    (["no.py", "--out", "out"], "no study file"),
    (["broken.py", "--out", "out"], "ModuleNotFoundError"),
    (["empty.py", "--out", "out"], "does not define trials"),
    ([STUDY, "--out", "out", "--only", "sede"], "no run matches 'sede'"),
    ([STUDY, "--out", "out", "--set", "training.num_sequnces=3"], "num_sequences"),
    ([STUDY, "--out", "out", "--data", "no.h5"], "there is no file"),
    ([STUDY, "--out", "."], "not empty and not the folder of a study"),
    ([STUDY, "--out", "empty.py"], "is a file"),
    (["status", "."], "not the folder of a study"),
]


@pytest.mark.parametrize(("arguments", "message"), COMMANDS)
def test_wrong_commands_are_refused(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("import nothing_of_this_name")
    (tmp_path / "empty.py").write_text("trials = None")
    assert message in refused(capsys, *arguments)
    assert {file.name for file in tmp_path.iterdir()} <= {"broken.py", "empty.py"}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("partiton = 'gpu'", "did you mean 'partition'"),
        ("time_minutes = 1", "signal_seconds must be less than the limit of 1 minutes"),
        ("gpus = 1", "gpu_memory_gb must be given"),
        ("partition = ", "is not TOML"),
    ],
)
def test_wrong_cluster_files_are_refused(tmp_path, text, match):
    file = tmp_path / "cluster.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=f"cluster.toml.*{match}"):
        read_cluster(file)


def test_the_example_of_a_cluster_file_is_read():
    example = Path(twelve.__file__).parents[1] / "sweeps" / "cluster.example.toml"
    cluster = read_cluster(example)
    assert (cluster.gpus, cluster.device_bytes) == (1, 40 * 2**30)
    asked = cluster.sbatch("name", "afterok:1")
    assert asked["dependency"] == "afterok:1"
    assert "account" not in asked


def test_two_trials_of_one_name_are_refused(tmp_path):
    class Twice:
        def trials(self, scale, folder, data):
            base = experiments(tmp_path)["seed-0"]
            return [Trial("a", base), Trial("a", base)]

    with pytest.raises(ValueError, match="two trials named 'a'"):
        list_trials(Twice(), "smoke", tmp_path, None)
    with pytest.raises(ValueError, match="a trial's name"):
        Trial("../a", experiments(tmp_path)["seed-0"])


def test_grafts_that_repeat_the_runs_own_edits_are_another_program(tmp_path):
    """Loading adds a run's own edits before the graft's, but not a second time."""
    base = experiments(tmp_path)["seed-0"]
    scale = "Scale('blocks.0.attn.scores', {})".format

    def grafting(name):
        text = f"Graft({str(tmp_path / name)!r}, until=0, edits=[{scale(2.0)}])"
        return dataclasses.replace(base, edits=(text,))

    others = {
        str(tmp_path / "same"): dataclasses.replace(base, edits=(scale(2.0),)),
        str(tmp_path / "third"): dataclasses.replace(base, edits=(scale(3.0),)),
        str(tmp_path / "fourth"): dataclasses.replace(base, edits=(scale(4.0),)),
    }
    third = program(grafting("third"), others)
    assert third == program(grafting("fourth"), others)
    assert third != program(grafting("same"), others)


# Interrupted jobs


def begun(folder, found, points):
    """A study folder with one job, whose runs have these resume points."""
    path = Folder(folder)
    job = Job("000", tuple(points), (), 1)
    with path.claimed("twelve", "smoke"):
        path.begin("twelve", "smoke", found, (), (), [job])
    for run, at in points.items():
        (path.run(run) / "resume").mkdir(parents=True)
        config = to_json(found[run])
        (path.run(run) / "config.json").write_text(json.dumps(config))
        for sequences in at:
            (path.run(run) / "resume" / f"{sequences:012d}.eqx").touch()
    return path


def test_members_with_a_point_in_common_go_on_together(tmp_path):
    found = experiments(tmp_path)
    begun(tmp_path, found, {"seed-0": {0, 320}, "seed-1": {320, 640}})
    jobs = {job.name: job.runs for job in planned(tmp_path, "seed-*").jobs}
    assert jobs["000"] == ("seed-0", "seed-1")
    assert sorted(jobs.values()) == [("seed-0", "seed-1"), ("seed-2", "seed-3")]


def test_members_without_go_on_apart(tmp_path):
    found = experiments(tmp_path)
    points = {"seed-0": {640, 1280}, "seed-1": {0, 320}, "seed-2": {960}}
    begun(tmp_path, found, points)
    launch = planned(tmp_path, "seed-*")
    assert launch.finished == ("seed-0",)
    assert sorted(job.runs for job in launch.jobs) == [
        ("seed-1",),
        ("seed-2",),
        ("seed-3",),
    ]
    assert launch.dropped == ("000",)


def test_a_member_that_never_began_is_packed_anew(tmp_path):
    points = {"seed-0": {0, 320}, "seed-1": {320, 640}, "seed-2": (), "seed-3": {320}}
    begun(tmp_path, experiments(tmp_path), points)
    jobs = {job.name: job.runs for job in planned(tmp_path, "seed-*").jobs}
    assert jobs == {"000": ("seed-0", "seed-1", "seed-3"), "001": ("seed-2",)}


def test_a_job_killed_as_it_began_keeps_its_members(tmp_path):
    """The job is one program; with fewer members, rounding would differ."""
    found = experiments(tmp_path)
    points = {"seed-0": {0}, "seed-1": {0}, "seed-2": (), "seed-3": ()}
    begun(tmp_path, found, points)
    jobs = {job.name: job.runs for job in planned(tmp_path, "seed-*").jobs}
    assert jobs == {"000": ("seed-0", "seed-1", "seed-2", "seed-3")}
    # Changed runs may be another program; runs that nobody asked for stay in the job.
    shutil.rmtree(tmp_path / "seed-3")
    asked = wanted(
        Folder(tmp_path),
        found | {"seed-3": dataclasses.replace(found["seed-3"], train_seed=9)},
        ("seed-*",),
    )
    launch = plan(Folder(tmp_path), asked, Debug(), 8, measure=False)
    jobs = {job.name: job.runs for job in launch.jobs}
    assert jobs == {"000": ("seed-0", "seed-1", "seed-2"), "001": ("seed-3",)}
    jobs = {job.name: job.runs for job in planned(tmp_path, "seed-0", "seed-2").jobs}
    assert jobs == {"000": ("seed-0", "seed-1", "seed-2")}
    jobs = {job.name: job.runs for job in planned(tmp_path, "seed-0").jobs}
    assert jobs == {"000": ("seed-0", "seed-1")}


def test_a_member_that_is_gone_or_has_changed_is_told_of(tmp_path):
    found = experiments(tmp_path)
    begun(tmp_path, found, {"seed-0": {0, 320}, "seed-1": {0, 320}})

    def launch(found):
        asked = wanted(Folder(tmp_path), found, ("seed-0",))
        return plan(Folder(tmp_path), asked, Debug(), 8, measure=False)

    without = {"seed-0": found["seed-0"]}
    with pytest.raises(ValueError, match="seed-1 has begun in one job with others"):
        launch(without)
    changed = dataclasses.replace(found["seed-1"], train_seed=9)
    with pytest.raises(ValueError, match="train_seed: 0 there, 9 here"):
        launch(without | {"seed-1": changed})


def test_a_queued_run_of_another_config_is_told_of(tmp_path, monkeypatch):
    """Its job has the config of its submission, and no run folder exists yet."""
    found = experiments(tmp_path)
    begun(tmp_path, found, {"wide": ()})
    (tmp_path / "wide" / "config.json").unlink()
    monkeypatch.setattr(_launch, "alive_jobs", lambda jobs: {"000": "PENDING"})
    assert [job.name for job in planned(tmp_path, "wide").queued] == ["000"]
    changed = found | {"wide": dataclasses.replace(found["wide"], train_seed=9)}
    asked = wanted(Folder(tmp_path), changed, ("wide",))
    with pytest.raises(ValueError, match="wide is queued with another config: train_s"):
        plan(Folder(tmp_path), asked, Debug(), 8, measure=False)


def test_a_job_that_ends_during_a_launch_is_not_launched_again(tmp_path, monkeypatch):
    found = experiments(tmp_path)
    folder = begun(tmp_path, found, {"wide": {0}})

    def ends(jobs):
        (folder.run("wide") / "resume" / f"{1280:012d}.eqx").touch()
        return {}

    monkeypatch.setattr(_launch, "alive_jobs", ends)
    launch = planned(tmp_path, "wide")
    assert (launch.finished, launch.jobs) == (("wide",), ())


def test_a_moved_study_is_told_of(capsys, tmp_path):
    begun(tmp_path / "old", experiments(tmp_path / "old"), {})
    (tmp_path / "old").rename(tmp_path / "new")
    text = one_line(capsys, STUDY, "--out", tmp_path / "new", "--scale", "smoke")
    assert f"was made as {tmp_path / 'old'} and moved" in text


# Costs


def test_a_cost_is_what_a_run_takes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = experiments(tmp_path / "study", scale="small")
    programs = [Program(found["seed-0"], 1), Program(found["seed-0"], 4)]
    one, four = measured(programs, {}, 1)
    # Adam keeps the weights and two copies; a program reads the state and writes it.
    count = 8 * 8 + 4 * 8 + 2 * 4 * 64 + 6 * 8 + 8 * 4 + 4
    assert one.member_bytes > 2 * 3 * 4 * count
    assert four.member_bytes < 2 * one.member_bytes
    training = found["seed-0"].training
    longer = seconds(four, 4, 8, 1, training) - four.compile
    assert longer == pytest.approx(
        2 * (seconds(four, 4, 4, 1, training) - four.compile)
    )
    assert seconds(four, 4, 8, 8, training) == seconds(four, 4, 4, 8, training)

    def measures_again(*_):
        raise AssertionError("what is known is measured again")

    monkeypatch.setattr(_cost.ProcessPoolExecutor, "submit", measures_again)
    assert measured(programs[:1], {}, 1) == [one]  # From the cache.


@dataclasses.dataclass
class Machine:
    """The part of an executor that packing uses."""

    device_bytes: int
    gpu: bool = False
    devices: int = 2
    cpu_devices: int = 2


@pytest.mark.parametrize(
    ("machine", "fits"),
    [
        # 4/5 of 2 GiB, minus 600 MiB and 100 MiB per device, divided by 2 · 100 MiB.
        (Machine(2**31), 4),
        (Machine(2**33), 9),
        # 4/5 of 512 MiB, minus 100 MiB, holds three members; two devices hold six.
        (Machine(2**29, gpu=True), 6),
    ],
)
def test_as_many_members_as_memory_allows(machine, fits, tmp_path):
    size = 100 * 2**20
    cost = Cost(1.0, 1.0, 1.0, member_bytes=size, shared_bytes=size, sharing=1)
    base = experiments(tmp_path)["seed-0"]
    group = Group(tuple("abcdefghi"), base, own_data=False)
    assert most_members((cost, 4), group, None, machine) == fits
    assert most_members((cost, 4), group, 2, machine) == 2
    small = dataclasses.replace(machine, device_bytes=2**27)
    with pytest.raises(ValueError, match=r"a takes 0.[29] GiB, but a job"):
        most_members((cost, 4), group, None, small)


def test_devices_that_share_a_member_have_a_copy_each():
    cost = Cost(1.0, 1.0, 1.0, member_bytes=100, shared_bytes=10, sharing=1)
    of = functools.partial(bytes_of, members=1, devices=4, gpu=False)
    several = dataclasses.replace(cost, sharing=4)
    # The host holds what is a member's own twice.
    assert of(several) - of(cost) == 3 * (2 * 100 + 10)


# Runs


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The study's folder, trained by processes of this machine, and the output."""
    out = tmp_path_factory.mktemp("studies") / "twelve"
    command = (STUDY, "--out", out, "--scale", "smoke", "--members", 8, "--jobs", 2)
    code, _, errors = sweeps(*command)
    assert code == 0, errors
    return Folder(out)


def contents(folder):
    """A finished run's results, to the bit.

    Without config and checksums: a config can name another run's folder.
    """
    files = sorted(folder.glob("checkpoints/*.eqx"))
    with h5py.File(folder / "log.h5") as log:
        rows = {}
        log.visititems(
            lambda name, x: (
                rows.update({name: x[()]}) if isinstance(x, h5py.Dataset) else None
            )
        )
    return {f.name: weights(f) for f in files}, rows


def weights(file):
    return bytes(checked(file.read_bytes(), None).content)


def assert_same(one, other):
    files, rows = contents(one)
    other_files, other_rows = contents(other)
    assert files == other_files
    assert rows.keys() == other_rows.keys()
    for name, values in rows.items():
        np.testing.assert_array_equal(values, other_rows[name], err_msg=name)


def test_all_runs_finish(trained):
    for name, experiment in trained.experiments.items():
        assert trained.finished(name, experiment)
        assert trained.report(name).state == "finished"
        _, rows = contents(trained.run(name))
        np.testing.assert_array_equal(rows["train/iter"], 16 * np.arange(1, 81))
        np.testing.assert_array_equal(rows["eval/iter"], 320 * np.arange(5))


def test_a_start_is_the_other_run_s_weights(trained):
    def at(name, checkpoint):
        return weights(trained.run(name) / "checkpoints" / f"{checkpoint:012d}.eqx")

    assert at("start-1", 0) == at("seed-1", 640)
    assert at("again-1", 0) == at("start-1", 1280)
    assert at("start-1", 1280) != at("start-1", 0)


def test_starting_again_does_nothing(trained):
    before = {f: f.stat().st_mtime_ns for f in trained.path.glob("*/*") if f.is_file()}
    command = (STUDY, "--out", trained.path, "--scale", "smoke", "--members", 8)
    code, _, errors = sweeps(*command)
    assert code == 0
    assert "0 runs in 0 jobs, 12 finished before" in errors
    after = {f: f.stat().st_mtime_ns for f in before if f.parent.name != "_sweep"}
    assert after == {f: t for f, t in before.items() if f.parent.name != "_sweep"}


def test_another_config_study_or_scale_is_refused(capsys, trained):
    here = (STUDY, "--out", trained.path, "--scale")
    change = ("--only", "wide", "--set", "optimizer.learning_rate.rate=0.5")
    text = one_line(capsys, *here, "smoke", *change)
    assert "wide holds a run of another config" in text
    assert "optimizer.learning_rate.rate: 1e-05 there, 0.5 here" in text
    text = one_line(capsys, *here, "small")
    assert "belongs to the study 'twelve' at scale 'smoke'" in text


def test_killed_and_started_again_ends_with_the_same_bits(trained, tmp_path):
    """Kills the launcher or a job, by SIGKILL or with time to save."""
    out = tmp_path / "killed"
    command = [STUDY, "--out", out, "--scale", "smoke", "--members", 8, "--jobs", 2]
    launch = [sys.executable, "-m", "sweeps", *map(str, command)]
    points = lambda: {*out.glob("*/resume/*.eqx")}
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
        before = points()
        process = subprocess.Popen(
            launch, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        # One job trains, and others still have to start: the study has three levels.
        while points() <= before:
            assert process.poll() is None
            time.sleep(0.01)
        if number == signal.SIGKILL:
            os.killpg(process.pid, number)  # Its jobs too.
        else:
            process.send_signal(number)
        _, errors = process.communicate(timeout=120)
        assert process.returncode != 0
        if number != signal.SIGKILL:
            assert process.returncode == 130
            assert "stopped; run the same command again" in errors
    assert not all(
        Folder(out).finished(name, run) for name, run in trained.experiments.items()
    )
    code, _, errors = sweeps(*command)
    assert code == 0, errors
    for name in trained.experiments:
        assert_same(trained.run(name), out / name)


def test_a_failed_member_leaves_its_neighbours_alone(tmp_path):
    """Once repaired, it trains, and the neighbours do not change."""
    out, study = tmp_path / "out", tmp_path / "study.py"
    folder = Folder(out)

    def launch(head, *more):
        late = str("late" in more)
        study.write_text(FAILING.replace("HEAD", str(head)).replace("LATE", late))
        paths = os.environ | {"PYTHONPATH": str(STUDY.parent)}
        options = ("--out", out, "--scale", "smoke", "--members", 8)
        return sweeps(study, *options, "--cluster", "debug", *more, env=paths)

    def states():
        return {name: folder.report(name).state for name in folder.experiments}

    code, _, errors = launch(9)
    assert code == 1
    assert "diverging failed: diverged: the " in errors
    assert "unbuilt failed: " in errors
    assert "Traceback" not in errors
    ended = {"good": "finished", "diverging": "failed", "after": "finished"}
    assert states() == ended | {"unbuilt": "failed"}
    assert folder.jobs["000"].runs == ("good", "diverging", "unbuilt")
    assert np.isfinite(contents(out / "good")[1]["train/loss"]).all()

    before = contents(out / "good")
    code, _, errors = launch(1)
    assert code == 1  # A diverged run stays diverged.
    assert "unbuilt failed" not in errors
    assert states() == ended | {"unbuilt": "finished"}
    assert contents(out / "good")[0] == before[0]

    code, _, errors = launch(1, "--only", "late", "--set", "train_seed=4")
    assert code == 0, errors
    assert folder.experiments["late"].train_seed == 4
    assert folder.experiments["good"].train_seed == 0


FAILING = """
import dataclasses
import twelve
from icl import Start
from icl.training.optimizers import SGD, Constant
from sweeps import Trial

def trials(scale, folder, data):
    base = next(iter(twelve.trials(scale, folder, data))).experiment
    def run(rate, head):
        edits = (f"Zero('blocks.1.attn.z', head={head})",)
        optimizer = SGD(Constant(rate))
        return dataclasses.replace(base, edits=edits, optimizer=optimizer)
    yield Trial("good", run(0.1, 1))
    yield Trial("diverging", run(1e30, 1))
    yield Trial("unbuilt", run(0.1, HEAD))
    start = Start(str(folder / "good"))
    yield Trial("after", dataclasses.replace(run(0.1, 1), start=start))
    if LATE:
        yield Trial("late", dataclasses.replace(run(0.1, 0), train_seed=3))
"""


def test_cancelling_stops_the_launch_and_its_jobs(tmp_path):
    out, study = tmp_path / "out", tmp_path / "study.py"
    study.write_text(LONG)
    launch = [sys.executable, "-m", "sweeps", str(study), "--out", str(out)]
    paths = os.environ | {"PYTHONPATH": str(STUDY.parent)}
    process = subprocess.Popen(
        [*launch, "--members", "1"], stderr=subprocess.PIPE, text=True, env=paths
    )
    folder = Folder(out)
    until = time.monotonic() + 120
    while not folder.sequences("seed-0") and time.monotonic() < until:
        time.sleep(0.2)
    code, printed, errors = sweeps("cancel", out)
    assert (code, printed) == (0, "1 job cancelled\n"), errors
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert folder.report("seed-0").state == "stopped"
    assert folder.report("seed-1") is None
    code, printed, _ = sweeps("cancel", out)
    assert (code, printed) == (0, "0 jobs cancelled\n")


LONG = """
import dataclasses
import twelve
from icl import Training
from icl.training.schedules import Every
from sweeps import Trial

def trials(scale, folder, data):
    base = next(iter(twelve.trials(scale, folder, data))).experiment
    every = Every(160_000)
    training = Training(10**9, 16, evaluate_at=every, checkpoint_at=Every(10**9))
    base = dataclasses.replace(base, training=training)
    for seed in range(2):
        yield Trial(f"seed-{seed}", dataclasses.replace(base, init_seed=seed))
"""


def test_members_are_sharded_over_four_devices(tmp_path):
    """Eight members, two on each device, end as they do alone."""
    script = SHARDED.replace("OUT", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["devices"] == 4
    assert found["members on each"] == 2
    np.testing.assert_allclose(found["together"], found["alone"], rtol=1e-4)


SHARDED = f"""
import dataclasses, json, pathlib, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import jax, numpy as np
from icl.devices import divide_cpu
divide_cpu(4)
import twelve
from icl import run_experiments
from icl.training._members import Members

folder = pathlib.Path("OUT")
base = next(twelve.trials("smoke", folder, None)).experiment
seeds = [dataclasses.replace(base, init_seed=k) for k in range(8)]
together = run_experiments(seeds, [folder / f"t{{k}}" for k in range(8)])
alone = [run_experiments([seeds[k]], [folder / f"a{{k}}"])[0] for k in (0, 7)]
members = Members([seed.build() for seed in seeds])
state = members.stack([jax.numpy.zeros(3) for _ in range(8)])
print(json.dumps({{
    "devices": len(state.sharding.device_set),
    "members on each": members.on_each,
    "together": [together[k].log.train["loss"].tolist() for k in (0, 7)],
    "alone": [result.log.train["loss"].tolist() for result in alone],
}}))
"""
