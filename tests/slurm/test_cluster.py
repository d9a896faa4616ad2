"""Tests of the cluster that this folder's other tests use: it is a real Slurm."""

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from cluster import available, Cluster, ClusterError


_ENDED = ("COMPLETED", "FAILED", "CANCELLED")


def _submit(cluster: Cluster, command: str, *options: str) -> str:
    script = f"#!/bin/bash\n{command}\n"
    return cluster.run("sbatch", "--parsable", *options, stdin=script).strip()


@pytest.fixture(autouse=True)
def empty(cluster: Cluster):
    """Each test leaves an empty queue and an open node."""
    yield
    cluster.resume()
    left = [job for job, state in cluster.jobs().items() if state not in _ENDED]
    if left:
        cluster.run("scancel", *left)
        cluster.wait(lambda: set(cluster.jobs().values()) <= set(_ENDED))


def test_job_runs_and_its_failure_is_seen(cluster: Cluster):
    good = _submit(cluster, "srun echo from $SLURM_JOB_ID", "--output=%j.txt")
    bad = _submit(cluster, "srun false")
    cluster.wait(lambda: cluster.jobs()[good] == "COMPLETED")
    cluster.wait(lambda: cluster.jobs()[bad] == "FAILED")
    assert (cluster.folder / f"{good}.txt").read_text() == f"from {good}\n"


def test_array_then_what_depends_on_it(cluster: Cluster):
    array = _submit(cluster, "sleep 1; echo task >> order", "--array=0-1")
    after = _submit(cluster, "echo after >> order", f"--dependency=afterok:{array}")
    jobs = cluster.jobs()
    assert {f"{array}_0", f"{array}_1", after} <= set(jobs)
    assert jobs[after] == "PENDING"
    cluster.wait(lambda: cluster.jobs()[after] == "COMPLETED")
    assert (cluster.folder / "order").read_text().split() == ["task", "task", "after"]


def test_requeued_job_runs_again_under_its_id(cluster: Cluster):
    job = _submit(cluster, "echo run >> runs; [ -e again ] || srun sleep 60")
    cluster.wait(lambda: cluster.pids(job, "sleep"))
    (cluster.folder / "again").touch()
    cluster.run("scontrol", "requeue", job)
    cluster.hasten(job)
    cluster.wait(lambda: cluster.jobs()[job] == "COMPLETED")
    assert (cluster.folder / "runs").read_text() == "run\nrun\n"


def test_drained_node_starts_nothing_until_resumed(cluster: Cluster):
    running = _submit(cluster, "srun sleep 60")
    cluster.wait(lambda: cluster.pids(running, "sleep"))
    cluster.drain()
    waiting = _submit(cluster, "true")
    with pytest.raises(TimeoutError, match=f"{waiting} PENDING"):
        cluster.wait(lambda: cluster.jobs()[waiting] != "PENDING", timeout=2)
    assert cluster.jobs()[running] == "RUNNING"
    cluster.resume()
    cluster.wait(lambda: cluster.jobs()[waiting] == "COMPLETED")


def test_restarted_controller_keeps_the_queue_and_the_jobs(cluster: Cluster):
    running = _submit(cluster, "srun sleep 60")
    held = _submit(cluster, "true", "--hold")
    cluster.wait(lambda: cluster.pids(running, "sleep"))
    before = cluster.pids(running, "sleep")
    cluster.restart_controller()
    assert cluster.jobs()[running] == "RUNNING"
    assert cluster.jobs()[held] == "PENDING"
    assert cluster.pids(running, "sleep") == before
    cluster.run("scontrol", "release", held)
    cluster.wait(lambda: cluster.jobs()[held] == "COMPLETED")


def test_pids_are_those_of_the_asked_task(cluster: Cluster):
    array = _submit(
        cluster,
        f"srun {sys.executable} -c 'import time; time.sleep(60)'",
        "--array=0-1",
    )
    first, second = f"{array}_0", f"{array}_1"
    cluster.wait(lambda: cluster.pids(first) and cluster.pids(second))
    for pid in cluster.pids(first):
        os.kill(pid, signal.SIGKILL)
    cluster.wait(lambda: cluster.jobs()[first] == "FAILED")
    assert cluster.jobs()[second] == "RUNNING"
    assert cluster.pids(second)
    assert cluster.pids(first) == []


def test_refused_command_raises_what_slurm_said(cluster: Cluster):
    with pytest.raises(ClusterError, match="sbatch.*nosuch"):
        _submit(cluster, "true", "--partition=nosuch")


def test_daemon_that_does_not_start_shows_its_log(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("cluster._CONFIG", "SlurmctldHost=nowhere\nNoSuchKey=1\n")
    with pytest.raises(ClusterError, match="(?s)slurmctld did not start.*NoSuchKey"):
        Cluster(tmp_path / "c").__enter__()


def test_without_slurm_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch):
    which = shutil.which
    monkeypatch.setattr(
        "shutil.which", lambda name, **k: None if name == "munged" else which(name, **k)
    )
    ok, why = available()
    assert not ok
    assert why == "Slurm is not installed (munged): tests/slurm/install"
