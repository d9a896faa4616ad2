"""What the studies of this folder share: how a model is trained at each scale."""

from icl import Experiment, TaskSet
from icl.protocols import ModelConfig
from icl.tasks.regression import LinearRegression
from icl.training import Training
from icl.training.optimizers import AdamW, Constant, Cosine
from icl.training.schedules import Every

from ...study import StudyScale


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
    rates = Cosine(rate, float(steps * batch), float(warmup * batch))
    optimizer = AdamW(rates, weight_decay=weight_decay, b2=0.98, clip_norm=clip)
    return _experiment(task, model, optimizer, scale, steps, batch)


def trained_as_published(
    task: LinearRegression, model: ModelConfig, *, scale: StudyScale
) -> Experiment:
    """An experiment with the settings of the public code for one layer.

    A constant rate of 1e-3, 5000 steps, batches of 2048, gradients clipped to .001.
    """
    steps, batch = (SMOKE_STEPS, 16) if scale == "smoke" else (5000, 2048)
    optimizer = AdamW(Constant(1e-3), weight_decay=0.0, b2=0.98, clip_norm=0.001)
    return _experiment(task, model, optimizer, scale, steps, batch)


def _experiment(
    task: LinearRegression,
    model: ModelConfig,
    optimizer: AdamW,
    scale: StudyScale,
    steps: int,
    batch: int,
) -> Experiment:
    total = steps * batch
    return Experiment(
        task=task,
        model=model,
        optimizer=optimizer,
        training=Training(
            total,
            batch,
            evaluate_at=Every(total // (2 if scale == "smoke" else 25)),
            checkpoint_at=Every(total // (2 if scale == "smoke" else 5)),
        ),
        evaluations={"train": TaskSet(20 if scale == "smoke" else 2000)},
    )
