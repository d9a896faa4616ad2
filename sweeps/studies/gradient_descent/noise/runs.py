"""Models trained on contexts in which some pairs are noisy or replaced.

`lsa` is one layer of linear self-attention, `transformer` has softmax. Noisy pairs are
mixed with clean ones, so that no position tells them apart.
"""

import dataclasses
from pathlib import Path

from icl import Experiment
from icl.data import Source
from icl.models.linear_attention import LinearSelfAttentionConfig
from icl.models.regression_transformer import RegressionTransformerConfig
from icl.tasks.regression import (
    FreshTeacher,
    LinearRegression,
    NoisyValues,
    PairNoise,
    RandomPairs,
)

from ....study import StudyScale, Trial, with_seeds
from .._trials import trained, trained_as_published


SEEDS = (20, 21, 22, 23, 24)
"""Others were seen before."""
NOISES: dict[str, PairNoise | None] = {
    "clean": None,
    "values-0.25": NoisyValues(0.25, 0.5),
    "values-0.5": NoisyValues(0.5, 0.5),
    "pairs-0.25": RandomPairs(0.25, FreshTeacher()),
    "pairs-0.5": RandomPairs(0.5, FreshTeacher()),
}
"""The noise of training, by the name of the runs."""
SEPARATED = ("values-0.25", "pairs-0.25")
"""The noises on which transformers are trained."""

_TASK = LinearRegression()
_FEWER = LinearRegression(dim=5, context=10, queries=4)
"""The task of the transformer: it sees fewer components and several queries."""


def trials(scale: StudyScale, folder: Path, data: Source | None) -> list[Trial]:
    """The runs of the study; see `sweeps.study.StudyModule`."""
    found = {
        f"lsa-{name}": _lsa(scale, dataclasses.replace(_TASK, pair_noise=noise))
        for name, noise in NOISES.items()
        if scale != "smoke" or name in ("clean", *SEPARATED)
    }
    found |= {
        f"transformer-{name}": _transformer(
            scale, dataclasses.replace(_FEWER, pair_noise=NOISES[name])
        )
        for name in SEPARATED
    }
    return with_seeds(found, SEEDS[:2] if scale == "smoke" else SEEDS)


def _lsa(scale: StudyScale, task: LinearRegression) -> Experiment:
    return trained_as_published(task, LinearSelfAttentionConfig(), scale=scale)


def _transformer(scale: StudyScale, task: LinearRegression) -> Experiment:
    steps, width = (50_000, 128) if scale == "paper" else (5000, 32)
    model = RegressionTransformerConfig(
        num_layers=3, d_model=8 if scale == "smoke" else width, num_heads=2
    )
    return trained(
        task,
        model,
        scale=scale,
        steps=steps,
        batch=64,
        rate=1e-4 if scale == "paper" else 2e-3,
        clip=1.0,
        warmup=steps // 25,
    )
