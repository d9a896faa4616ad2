"""What the studies of this folder share: how a model is trained at each scale."""

from icl import Experiment, TaskSet
from icl.protocols import ModelConfig
from icl.tasks.regression import LinearRegression
from icl.training import Training
from icl.training.optimizers import AdamW, Cosine
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
