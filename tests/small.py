"""The experiment behind `small_run` (conftest.py), which tests of commands share."""

import dataclasses
from typing import Any

from icl import Experiment
from icl.data import LowRankClasses
from icl.models import TransformerConfig
from icl.presets.induction import induction
from icl.training import Training
from icl.training.schedules import Every


def small(**changes: Any) -> Experiment:
    """The main run, but small and fast; its layers have different numbers of heads."""
    base = induction(LowRankClasses(num_classes=60, num_exemplars=3, dim=16))
    sets = {
        name: dataclasses.replace(base.evaluations[name], size=20)
        for name in ("train", "heldout_labels")
    }
    changes = {
        "evaluations": sets,
        "model": TransformerConfig(d_model=16, num_heads=(4, 2)),
        "training": Training(640, 32, None, Every(320), Every(160)),
        **changes,
    }
    return dataclasses.replace(base, **changes)
