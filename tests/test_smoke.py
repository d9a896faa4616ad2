"""Each study at smoke scale."""

import h5py
import numpy as np
import pytest

from sweeps.folder import Folder
from sweeps.study import study_names
from sweeps.watch import collect_command


@pytest.mark.slow
@pytest.mark.parametrize("study", study_names())
def test_a_study_at_smoke_scale_completes(study, smoke):
    out = smoke(study)
    folder = Folder(out)
    for name, experiment in folder.experiments.items():
        assert folder.finished(name, experiment), name
        assert folder.report(name).state == "finished"
    assert collect_command([str(out)]) == 0
    with h5py.File(out / "collected.h5") as file:
        assert set(file["run"].asstr()[()]) == set(folder.experiments)
        assert np.isfinite(file["loss"][()]).all()
