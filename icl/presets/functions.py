"""Functions in context: Garg et al. 2022 (NeurIPS; arXiv 2208.01066), at small size.

The small presets share a GPT-2 of three layers of 64, with 5 components and 11 points
in a prompt. Those of linear functions have evaluation sets with shifted points. Their
initial weights are five times as large as GPT-2's, with which ReBased learns nothing in
8000 steps.
"""

import dataclasses

from ..experiments import Experiment
from ..models.gpt2 import ExactGelu, GPT2Config, SIZES
from ..protocols import EvaluationConfig, TaskSet
from ..tasks.functions import Curriculum, FunctionClass, InContextFunction, Ramp
from ..tasks.functions.classes import (
    DecisionTree,
    LinearClassification,
    LinearFunction,
    SparseLinear,
    TwoLayerReLU,
)
from ..tasks.functions.shifts import (
    OppositeQuery,
    OrthantContext,
    OrthogonalQuery,
    OverlappingQuery,
    ScaledInputs,
    SkewedInputs,
    SubspaceInputs,
)
from ..training import Training
from ..training.optimizers import Adam, Constant, Cosine, LearningRate
from ..training.schedules import Every
from ._preset import preset


_BATCH = 64


@preset
def function_linear(steps: int = 8000) -> Experiment:
    """Linear functions at a small size: 5 components, 11 points.

    The evaluation sets have the published shifts of points and queries. Least squares
    has the error (1 - k/5) after k pairs.
    """
    return _small(LinearFunction(), steps, _shifted())


@preset
def function_curriculum(steps: int = 8000) -> Experiment:
    """As `function_linear`, with a curriculum: from 2 components and 5 points on.

    The number of components grows by 1 and that of points by 2 every 500 steps.
    """
    interval = 500 * _BATCH
    curriculum = Curriculum(Ramp(2, 5, 1, interval), Ramp(5, 11, 2, interval))
    found = _small(LinearFunction(), steps, _shifted())
    task = dataclasses.replace(_task(LinearFunction()), curriculum=curriculum)
    return dataclasses.replace(found, task=task)


@preset
def function_sparse(steps: int = 8000) -> Experiment:
    """Linear functions of 2 of 5 components, 11 points."""
    return _small(SparseLinear(2), steps)


@preset
def function_classification(steps: int = 8000) -> Experiment:
    """Labels on the two sides of a plane in 5 dimensions, 11 points."""
    return _small(LinearClassification(), steps)


@preset
def function_relu(steps: int = 8000) -> Experiment:
    """Networks with 10 hidden ReLU units, 5 components, 11 points."""
    return _small(TwoLayerReLU(10), steps, {"linear": _set(LinearFunction())})


@preset
def function_tree(steps: int = 8000) -> Experiment:
    """Decision trees of depth 2 on 5 components, 11 points."""
    return _small(DecisionTree(2), steps)


@preset
def function_linear_published(steps: int = 500_001) -> Experiment:
    """Linear functions at the published size: 20 components, 41 points, 12 layers.

    9.5 million parameters, places for 101 points, Adam at 1e-4, and a curriculum from 5
    components and 11 points on. It took its authors 7 hours on a GPU.
    """
    return _published(SIZES["standard"], steps)


@preset
def function_linear_six_layers(steps: int = 500_001) -> Experiment:
    """As `function_linear_published`, with 6 layers of 128: 1.2 million parameters."""
    return _published(SIZES["small"], steps)


@preset
def function_linear_three_layers(steps: int = 500_001) -> Experiment:
    """As `function_linear_published`, with 3 layers of 64: 0.2 million parameters."""
    return _published(SIZES["tiny"], steps)


@preset
def function_linear_limits_of_icl(steps: int = 100_001) -> Experiment:
    """The run of limits_of_icl: as `function_linear_published`, but with an exact GELU.

    It has a fifth of the steps and places for 41 points. For another kind of attention,
    change `model.attention` and `model.mask`.
    """
    changed = {"activation": ExactGelu(), "max_length": 2 * 41}
    return _published(dataclasses.replace(SIZES["standard"], **changed), steps)


def _published(model: GPT2Config, steps: int) -> Experiment:
    """A published run: its curriculum and its rate."""
    interval = 2000 * _BATCH
    curriculum = Curriculum(Ramp(5, 20, 1, interval), Ramp(11, 41, 2, interval))
    task = InContextFunction(curriculum=curriculum)
    return _experiment(task, model, Constant(1e-4), steps, {"train": TaskSet(1280)})


def _task(function: FunctionClass) -> InContextFunction:
    return InContextFunction(function, dim=5, points=11)


def _set(function: FunctionClass) -> TaskSet:
    return TaskSet(1280, _task(function))


def _shifted() -> dict[str, EvaluationConfig]:
    shifts = {
        "skewed": SkewedInputs(),
        "subspace": SubspaceInputs(2),
        "twice": ScaledInputs(2.0),
        "orthant": OrthantContext(),
        "opposite": OppositeQuery(),
        "orthogonal": OrthogonalQuery(),
        "overlapping": OverlappingQuery(),
    }
    task = _task(LinearFunction())
    return {
        name: TaskSet(1280, dataclasses.replace(task, shift=shift))
        for name, shift in shifts.items()
    }


def _small(
    function: FunctionClass,
    steps: int,
    others: dict[str, EvaluationConfig] | None = None,
) -> Experiment:
    sets = {"train": TaskSet(1280), **(others or {})}
    model = dataclasses.replace(SIZES["tiny"], max_length=22, init_std=0.1)
    rate = Cosine(1e-3, float(steps * _BATCH))
    return _experiment(_task(function), model, rate, steps, sets)


def _experiment(
    task: InContextFunction,
    model: GPT2Config,
    rate: LearningRate,
    steps: int,
    sets: dict[str, EvaluationConfig],
) -> Experiment:
    total = steps * _BATCH
    every = Every(max(1, steps // 40) * _BATCH)
    return Experiment(
        task=task,
        model=model,
        optimizer=Adam(rate),
        training=Training(total, _BATCH, evaluate_at=every, checkpoint_at=every),
        evaluations=sets,
    )
