"""Implicit likelihood-ratio tests (arXiv 2603.10573): an encoder that discriminates."""

import dataclasses

from ..experiments import Experiment
from ..models.encoder import EncoderConfig, TorchWeights
from ..protocols import TaskConfig, TaskSet
from ..tasks.discrimination import ShiftedMean, Variance
from ..training import Training
from ..training.optimizers import AdamW, OneCycle, OneCycleMomentum
from ..training.schedules import Every
from ._preset import preset


@preset
def shifted_mean(steps: int = 2000) -> Experiment:
    """Task A at a small size: two Gaussians with opposite means and an unknown shift.

    4 components, 32 labelled points and a shift of 1/2; two layers of 64. `wide_shift`
    has a shift of 3/2, with the log-odds of a Bayes predictor that still assumes 1/2.
    In a minute on two cores, the loss comes within .01 nats of the exact Bayes
    predictor's.
    """
    task = ShiftedMean(4, 32, 0.5)
    wide = dataclasses.replace(task, nuisance_std=1.5, assumed_nuisance_std=0.5)
    return _experiment(task, {"wide_shift": TaskSet(2000, wide)}, 64, steps)


@preset
def variance(steps: int = 6000) -> Experiment:
    """Task B at a small size: two Gaussians with different variances.

    4 components and 32 labelled points; two layers of 64. In two minutes on two cores,
    the loss comes within .02 nats of the exact Bayes predictor's.
    """
    return _experiment(Variance(4, 32), {}, 64, steps)


@preset
def shifted_mean_published(steps: int = 15_620) -> Experiment:
    """Task A at the published size, 15,620 steps; ten minutes on two cores.

    16 components, 32 labelled points and a shift of 3; two layers of 128, whose weights
    start as in the public code. `wide_shift` has a shift of 9, with the log-odds of a
    Bayes predictor that still assumes 3.
    """
    task = ShiftedMean()
    wide = dataclasses.replace(task, nuisance_std=9.0, assumed_nuisance_std=3.0)
    sets = {"wide_shift": TaskSet(2000, wide)}
    return _experiment(task, sets, 128, steps, TorchWeights())


@preset
def variance_published(steps: int = 15_620) -> Experiment:
    """Task B at the published size, 15,620 steps; ten minutes on two cores.

    16 components and 32 labelled points; two layers of 128, whose weights start as in
    the public code.
    """
    return _experiment(Variance(), {}, 128, steps, TorchWeights())


def _experiment(
    task: TaskConfig,
    others: dict[str, TaskSet],
    width: int,
    steps: int,
    initial: TorchWeights | None = None,
) -> Experiment:
    """As published: batches of 64, AdamW with clipping, a one-cycle rate up to 3e-4.

    The rate is largest after three tenths of the steps.
    """
    if steps < 4:
        raise ValueError(f"steps must be at least 4 for a one-cycle rate, got {steps}")
    batch = 64
    # The units of PyTorch's schedule, whose first step is the first of `steps`.
    total, warmup = (steps - 1.0) * batch, (0.3 * steps - 1) * batch
    return Experiment(
        task=task,
        model=EncoderConfig(d_model=width, initial=initial),
        optimizer=AdamW(
            OneCycle(3e-4, total, warmup),
            weight_decay=1e-4,
            b1=OneCycleMomentum(total, warmup),
            clip_norm=1.0,
        ),
        training=Training(
            num_sequences=steps * batch,
            batch_size=batch,
            evaluate_at=Every(steps * batch // 20),
            checkpoint_at=Every(steps * batch // 20),
        ),
        evaluations={"train": TaskSet(2000), **others},
    )
