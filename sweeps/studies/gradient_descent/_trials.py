"""What the studies of this folder share: how a model is trained at each scale."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from icl import Experiment, TaskSet
from icl.data import Source
from icl.protocols import ModelConfig
from icl.tasks.regression import LinearRegression
from icl.training import Training
from icl.training.optimizers import AdamW, Cosine
from icl.training.schedules import Every

from ...study import StudyScale, Trial


SMOKE_STEPS = 20
"""How many steps all runs have at scale `smoke`."""


def trained(
    task: LinearRegression,
    model: ModelConfig,
    *,
    scale: StudyScale,
    steps: int,
    batch: int,
    rate: float = 2e-3,
    clip: float = 0.001,
    weight_decay: float = 0.0,
    warmup: int = 0,
) -> Experiment:
    """An experiment with the optimizer of von Oswald et al. (2023), and decay.

    AdamW's second decay is .98, and the gradient's norm is clipped. At a constant rate
    the loss would end a percent above that of gradient descent, so the rate falls to 0.

    **Arguments:** `steps`, `warmup`: Steps in all, and those in which the rate rises.
    """
    if scale == "smoke":
        steps, batch, warmup = SMOKE_STEPS, 16, 0
    total = steps * batch
    return Experiment(
        task=task,
        model=model,
        optimizer=AdamW(
            Cosine(rate, float(total), float(warmup * batch)),
            weight_decay=weight_decay,
            b2=0.98,
            clip_norm=clip,
        ),
        training=Training(
            total,
            batch,
            evaluate_at=Every(total // (2 if scale == "smoke" else 25)),
            checkpoint_at=Every(total // (2 if scale == "smoke" else 5)),
        ),
        evaluations={"train": TaskSet(20 if scale == "smoke" else 2000)},
    )


def with_seeds(
    experiments: Mapping[str, Experiment], seeds: Iterable[int]
) -> list[Trial]:
    """A trial for each experiment and seed, called `NAME-seed-SEED`."""
    return [
        Trial(
            f"{name}-seed-{seed}",
            dataclasses.replace(experiment, init_seed=seed, train_seed=seed),
        )
        for name, experiment in experiments.items()
        for seed in seeds
    ]


def refuse_data(study: str, data: Source | None) -> None:
    """Raises `ValueError` if `data` is given, as the task draws its own."""
    if data is not None:
        raise ValueError(f"the study {study} draws its own points; give it no --data")


def changed(task: LinearRegression, **fields: Any) -> LinearRegression:
    """The task with other settings."""
    return dataclasses.replace(task, **fields)
