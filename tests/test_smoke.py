"""Each study, small enough for two minutes, through processes of this machine."""

import subprocess
import sys

import h5py
import numpy as np
import pytest

from sweeps._folder import Folder
from sweeps._study import names


@pytest.mark.slow
@pytest.mark.parametrize("study", names())
def test_a_study_at_smoke_scale_completes(study, tmp_path):
    out = tmp_path / study
    sweeps = [sys.executable, "-m", "sweeps"]
    options = ["--scale", "smoke", "--members", "16", "--jobs", "2"]
    launch = [*sweeps, study, "--out", str(out), *options]
    done = subprocess.run(launch, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folder = Folder(out)
    for name, experiment in folder.experiments.items():
        assert folder.finished(name, experiment), name
        assert folder.report(name).state == "finished"
    collect = [*sweeps, "collect", str(out)]
    done = subprocess.run(collect, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with h5py.File(out / "collected.h5") as file:
        assert set(file["run"].asstr()[()]) == set(folder.experiments)
        assert np.isfinite(file["loss"][()]).all()
