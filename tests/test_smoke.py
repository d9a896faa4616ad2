"""Each study at smoke scale (two minutes), trained by processes of this machine."""

import subprocess
import sys

import h5py
import numpy as np
import pytest

from sweeps.folder import Folder
from sweeps.study import study_names


@pytest.mark.slow
@pytest.mark.parametrize("study", study_names())
def test_a_study_at_smoke_scale_completes(study, smoke):
    out = smoke(study)
    folder = Folder(out)
    for name, experiment in folder.experiments.items():
        assert folder.finished(name, experiment), name
        assert folder.report(name).state == "finished"
    collect = [sys.executable, "-m", "sweeps", "collect", str(out)]
    done = subprocess.run(collect, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with h5py.File(out / "collected.h5") as file:
        assert set(file["run"].asstr()[()]) == set(folder.experiments)
        assert np.isfinite(file["loss"][()]).all()
