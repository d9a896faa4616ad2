"""Transformers of several depths, read after each layer.

The read-out is shared by all layers. `final` trains the last layer's prediction only,
`every` trains those of all layers, and `tied` has one block that is applied again and
again. All scales have the task of the plan: 20 pairs of 20 components, noise of .05,
and 20 queries. `small` has narrower models, fewer steps, and a higher rate; noise and
context are varied at `paper` only.
"""

import dataclasses
from pathlib import Path
from typing import Any

from icl import Experiment
from icl.data import Source
from icl.models.regression_transformer import RegressionTransformerConfig
from icl.models.supervision import EveryLayer
from icl.tasks.regression import GaussianInputs, LinearRegression

from ....study import StudyScale, Trial, with_seeds
from .._trials import trained


SEEDS = (20, 21)
"""Other seeds were seen before, on a smaller task."""
DEPTHS = {"paper": (2, 4, 8, 12, 24), "small": (2, 4, 8, 12), "smoke": (1, 2)}
NOISES = (0.0, 0.02, 0.05, 0.1)
"""Of the paper's noise sweep, at its middle depth; only at scale `paper`."""
CONTEXTS = (10, 20, 40)
"""Of the paper's context sweep, at its middle depth; only at scale `paper`."""
TASK = LinearRegression(20, 20, GaussianInputs(), noise=0.05, queries=20)


def trials(scale: StudyScale, folder: Path, data: Source | None) -> list[Trial]:
    """The runs of the study; see `sweeps.study.StudyModule`."""
    deepest = max(DEPTHS[scale])
    found = {
        f"final-{depth}": _transformer(scale, TASK, depth) for depth in DEPTHS[scale]
    }
    every = {"supervision": EveryLayer()}
    found[f"every-{deepest}"] = _transformer(scale, TASK, deepest, **every)
    found[f"tied-{deepest}"] = _transformer(scale, TASK, deepest, tied=True)
    if scale == "paper":
        for noise in NOISES:
            other = dataclasses.replace(TASK, noise=noise)
            found[f"final-8-noise-{noise}"] = _transformer(scale, other, 8)
        for context in CONTEXTS:
            other = dataclasses.replace(TASK, context=context)
            found[f"final-8-context-{context}"] = _transformer(scale, other, 8)
    return with_seeds(found, SEEDS)


def _transformer(
    scale: StudyScale, task: LinearRegression, depth: int, **fields: Any
) -> Experiment:
    width, heads = {"paper": (128, 4), "small": (64, 4), "smoke": (8, 2)}[scale]
    model = RegressionTransformerConfig(depth, width, heads, **fields)
    paper = scale == "paper"
    return trained(
        task,
        model,
        scale=scale,
        steps=50_000 if paper else 10_000,
        batch=64,
        rate=1e-4 if paper else 1e-3,
        clip=1.0,
        weight_decay=0.01,
        warmup=2000 if paper else 400,
    )
