"""How robust a run is under each of the shifts of limits_of_icl."""

import dataclasses
import functools
from pathlib import Path

import jax

import icl
from icl.baselines.functions import Averaging, LeastSquares, NearestNeighbours
from icl.replaying.by_context import (
    draw_prompts,
    ErrorCurves,
    errors_by_context,
    Predictor,
    PromptSets,
)
from icl.tasks.functions import FunctionClass, InContextFunction, InputShift
from icl.tasks.functions.classes import (
    AffineFunction,
    NoisyLinear,
    SparseLinear,
    UniformLinear,
)
from icl.tasks.functions.classes.noisy import ExpectedSize
from icl.tasks.functions.shifts import (
    OppositeQuery,
    OrthantContext,
    OrthogonalQuery,
    OverlappingQuery,
    ScaledInputs,
    ScaledQuery,
    SkewedInputs,
    SubspaceInputs,
)


PROMPTS = 1280
"""As in both public codes."""
_KEY = 2026
BASELINES: dict[str, Predictor] = {
    "least squares": LeastSquares(),
    "averaging": Averaging(),
    "3 nearest": NearestNeighbours(3),
}


def sweeps_of(task: InContextFunction) -> dict[str, InContextFunction]:
    """The task under each setting of each published sweep, by name.

    Sweeps are those of limits_of_icl, with the same steps. Three kinds of its settings
    changed nothing, so they are real here: queries orthogonal to some points, queries
    with some signs opposite to the context's, and at least two constrained points.
    """
    dim, points = task.dim, task.points
    shifts: dict[str, InputShift] = {
        **{f"query-scale={x / 10}": ScaledQuery(x / 10) for x in range(1, 51, 2)},
        **{f"opposite={n}": OppositeQuery(n) for n in range(1, dim + 1)},
        **{f"constrained={n}": OrthantContext(n) for n in range(3, points + 1, 2)},
        **{f"orthogonal={n}": OrthogonalQuery(n) for n in range(1, dim)},
        "overlapping": OverlappingQuery(),
        **{f"removed={n}": SubspaceInputs(n) for n in range(1, dim)},
        **{f"skewed={x / 10}": SkewedInputs(x / 10) for x in range(1, 30, 2)},
        **{f"scale={x}": ScaledInputs(x) for x in (1 / 3, 0.5, 2.0, 3.0)},
    }
    classes: dict[str, FunctionClass] = {
        **{
            f"noise={x / 10}": NoisyLinear(x / 10, size=ExpectedSize())
            for x in range(1, 50, 2)
        },
        **{f"bias={x / 10}": AffineFunction(x / 10) for x in range(1, 50, 2)},
        **{f"sparse={n}": SparseLinear(n) for n in range(1, dim)},
        "uniform": UniformLinear(),
    }
    task = dataclasses.replace(task, curriculum=None)
    return {
        "standard": task,
        **{n: dataclasses.replace(task, shift=shift) for n, shift in shifts.items()},
        **{n: dataclasses.replace(task, function=f) for n, f in classes.items()},
    }


@functools.lru_cache(maxsize=2)
def prompts(task: InContextFunction, size: int = PROMPTS) -> PromptSets:
    """The prompts of every setting, the same for all runs of a task."""
    return draw_prompts(sweeps_of(task), size, key=jax.random.key(_KEY))


def robustness(folder: Path, size: int = PROMPTS) -> ErrorCurves:
    """The errors of a run's final model under every setting, after the most pairs."""
    trained = icl.load(folder)
    task = trained.task
    return errors_by_context(trained.model, prompts(task, size), positions=[-1])


def baselines(task: InContextFunction, size: int = PROMPTS) -> dict[str, ErrorCurves]:
    """The same errors of learners that need no training, by name."""
    sets = prompts(task, size)
    return {
        name: errors_by_context(learner, sets, positions=[-1])
        for name, learner in BASELINES.items()
    }
