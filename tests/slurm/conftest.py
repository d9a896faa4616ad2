import os
from collections.abc import Iterator

import pytest
from cluster import available, Cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One Slurm cluster for all tests of this folder; skips them without Slurm."""
    if os.environ.get("PYTEST_XDIST_WORKER"):
        pytest.skip("one cluster is for all of these tests: pytest tests/slurm")
    ok, why = available()
    if not ok:
        pytest.skip(why)
    with Cluster(tmp_path_factory.mktemp("slurm")) as up:
        yield up
