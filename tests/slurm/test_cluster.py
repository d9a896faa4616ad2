"""Tests of the cluster that this folder's other tests use: it is a real Slurm."""

import shutil

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


def test_requeued_job_runs_again_under_its_id(cluster: Cluster):
    job = _submit(cluster, "echo run >> runs; [ -e again ] || srun sleep 60")
    cluster.wait(lambda: cluster.pids(job, "sleep"))
    (cluster.folder / "again").touch()
    cluster.run("scontrol", "requeue", job)
    cluster.hasten(job)
    cluster.wait(lambda: cluster.jobs()[job] == "COMPLETED")
    assert (cluster.folder / "runs").read_text() == "run\nrun\n"


def test_refused_command_raises_what_slurm_said(cluster: Cluster):
    with pytest.raises(ClusterError, match="sbatch.*nosuch"):
        _submit(cluster, "true", "--partition=nosuch")


def test_without_slurm_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch):
    which = shutil.which
    monkeypatch.setattr(
        "shutil.which", lambda name, **k: None if name == "munged" else which(name, **k)
    )
    ok, why = available()
    assert not ok
    assert why == "Slurm is not installed (munged): tests/slurm/install"
