"""The runs of the study `development`: regression and an induction head, by seed.

Regression is that of Hoogland et al. 2024 (arXiv 2402.02364): 4 components, 8 points,
noise of variance .125, two layers of 64 with 4 heads and an MLP of 64, Adam at .003.
The paper has 500,000 steps of 1024 prompts. `small` has 12,000 of 256. Our GPT-2
differs in its initial weights, and a block does not add its input twice.
"""

import dataclasses
import math
from pathlib import Path

from icl import Experiment, TaskSet
from icl.data import LowRankClasses, Source
from icl.models.gpt2 import GPT2Config, Relu
from icl.presets.induction import induction
from icl.tasks.functions import InContextFunction
from icl.tasks.functions.classes import NoisyLinear
from icl.training import Training
from icl.training.optimizers import Adam, Constant
from icl.training.schedules import LogSpaced

from ...study import StudyScale, Trial, with_seeds


SEEDS = (20, 21, 22, 23, 24)
"""Seed 0 was seen before the claims were written."""
NOISE = math.sqrt(0.125)
"""The standard deviation of the noise on values."""
_STEPS = {"smoke": (20, 16), "small": (12_000, 256), "paper": (500_000, 1024)}
"""How many steps, and prompts in each."""
_INDUCTION = {"smoke": 640, "small": 600_000, "paper": 1_000_000}


def trials(scale: StudyScale, folder: Path, data: Source | None) -> list[Trial]:
    """The runs of the study; see `sweeps.study.StudyModule`."""
    found = {
        "regression": _regression(scale),
        "induction": _induction(scale, data or LowRankClasses()),
    }
    return with_seeds(found, SEEDS[:2] if scale == "smoke" else SEEDS)


def _regression(scale: StudyScale) -> Experiment:
    steps, batch = _STEPS[scale]
    at = LogSpaced(5 if scale == "smoke" else 60, first=10 * batch)
    width = 8 if scale == "smoke" else 64
    return Experiment(
        task=InContextFunction(NoisyLinear(NOISE), dim=4, points=8),
        model=GPT2Config(
            num_layers=2,
            d_model=width,
            num_heads=4,
            d_mlp=width,
            max_length=16,
            activation=Relu(),
            init_std=0.1,
        ),
        optimizer=Adam(Constant(3e-3)),
        training=Training(steps * batch, batch, evaluate_at=at, checkpoint_at=at),
        evaluations={"train": TaskSet(64 if scale == "smoke" else 4096)},
    )


def _induction(scale: StudyScale, data: Source) -> Experiment:
    base = induction(data)
    total = _INDUCTION[scale]
    at = LogSpaced(4, first=64) if scale == "smoke" else LogSpaced(40, first=10_000)
    training = dataclasses.replace(
        base.training, num_sequences=total, evaluate_at=at, checkpoint_at=at
    )
    size = 64 if scale == "smoke" else 4096
    train = dataclasses.replace(base.evaluations["train"], size=size)
    return dataclasses.replace(base, training=training, evaluations={"train": train})
