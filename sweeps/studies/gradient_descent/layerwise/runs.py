"""Transformers of several depths, read after each layer, and one layer to roll out.

The read-out is shared by all layers. `final` trains the last layer's prediction only,
`every` trains those of all layers, and `tied` has one block that is applied again and
again. `rolled` is one layer of linear self-attention.
"""

import dataclasses
from pathlib import Path
from typing import Any

from icl import Experiment
from icl.data import Source
from icl.models.linear_attention import LinearSelfAttentionConfig
from icl.models.regression_transformer import RegressionTransformerConfig
from icl.models.supervision import EveryLayer
from icl.tasks.regression import GaussianInputs, LinearRegression

from ....study import StudyScale, Trial, with_seeds
from .._trials import trained


SEEDS = (10, 11)
DEPTHS = {"paper": (2, 4, 8, 12, 24), "small": (1, 2, 4, 8), "smoke": (1, 2)}
NOISES = (0.0, 0.02, 0.05, 0.1)
"""Of the paper's noise sweep, at its middle depth; only at scale `paper`."""
CONTEXTS = (10, 20, 40)
"""Of the paper's context sweep, at its middle depth; only at scale `paper`."""
DEEPEST = {"paper": 24, "small": 8, "smoke": 2}
"""The depth that is also trained in every layer, and with tied layers."""
TASK = LinearRegression(5, 10, GaussianInputs(), noise=0.05, queries=8)

_PAPER_TASK = LinearRegression(20, 20, GaussianInputs(), noise=0.05, queries=20)


def trials(scale: StudyScale, folder: Path, data: Source | None) -> list[Trial]:
    """The runs of the study; see `sweeps.study.StudyModule`."""
    task = _PAPER_TASK if scale == "paper" else TASK
    deepest = DEEPEST[scale]
    found = {
        f"final-{depth}": _transformer(scale, task, depth) for depth in DEPTHS[scale]
    }
    every = {"supervision": EveryLayer()}
    found[f"every-{deepest}"] = _transformer(scale, task, deepest, **every)
    found[f"tied-{deepest}"] = _transformer(scale, task, deepest, tied=True)
    if scale == "paper":
        for noise in NOISES:
            other = dataclasses.replace(task, noise=noise)
            found[f"final-8-noise-{noise}"] = _transformer(scale, other, 8)
        for context in CONTEXTS:
            other = dataclasses.replace(task, context=context)
            found[f"final-8-context-{context}"] = _transformer(scale, other, 8)
    found["rolled"] = _rolled(scale)
    return with_seeds(found, SEEDS)


def _transformer(
    scale: StudyScale, task: LinearRegression, depth: int, **fields: Any
) -> Experiment:
    width, heads = {"paper": (128, 4), "small": (32, 2), "smoke": (8, 2)}[scale]
    model = RegressionTransformerConfig(depth, width, heads, **fields)
    paper = scale == "paper"
    return trained(
        task,
        model,
        scale=scale,
        steps=50_000 if paper else 5000,
        batch=64,
        rate=1e-4 if paper else 2e-3,
        clip=1.0,
        weight_decay=0.01,
        warmup=2000 if paper else 200,
    )


def _rolled(scale: StudyScale) -> Experiment:
    steps, batch = (5000, 2048) if scale == "paper" else (4000, 256)
    task, model = LinearRegression(), LinearSelfAttentionConfig()
    return trained(task, model, scale=scale, steps=steps, batch=batch)
