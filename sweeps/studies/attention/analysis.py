"""How the runs learn, and how robust they are under the shifts of limits_of_icl."""

import dataclasses
import functools
import math
from collections.abc import Iterable
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Float

import icl
from icl.baselines.functions import Averaging, LeastSquares, NearestNeighbours
from icl.experiments.training_log import training_log
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
_PUBLISHED_DIM = 20
_KEY = 2026
_PIECES = 160
BASELINES: dict[str, Predictor] = {
    "least squares": LeastSquares(),
    "averaging": Averaging(),
    "3 nearest": NearestNeighbours(3),
}


def sweeps_of(task: InContextFunction) -> dict[str, InContextFunction]:
    """The task under each setting of each published sweep, by name.

    Sweeps are those of limits_of_icl, almost with its steps. Some of its settings
    changed nothing, so they are real here: queries orthogonal to some points, queries
    with some signs opposite to the context's, and at least two constrained points.
    Names have its noise and bias, which are for 20 components. For other numbers, they
    are as large beside the function's values as there.

    **Raises:** `ValueError` for fewer than 2 components or 4 points.
    """
    dim, points = task.dim, task.points
    if dim < 2 or points < 4:
        wanted = "sweeps need at least 2 components and 4 points"
        raise ValueError(f"{wanted}, got {dim} and {points}")
    beside = math.sqrt(dim / _PUBLISHED_DIM)
    shifts: dict[str, InputShift] = {
        **{f"query-scale={x / 10}": ScaledQuery(x / 10) for x in range(1, 51, 2)},
        **{f"opposite={n}": OppositeQuery(n) for n in range(1, dim + 1)},
        **{f"constrained={n}": OrthantContext(n) for n in range(points, 1, -2)},
        **{f"orthogonal={n}": OrthogonalQuery(n) for n in range(1, dim)},
        "overlapping": OverlappingQuery(),
        **{f"removed={n}": SubspaceInputs(n) for n in range(1, dim)},
        **{f"skewed={x / 10}": SkewedInputs(x / 10) for x in range(1, 30, 2)},
        **{f"scale={x:.3g}": ScaledInputs(x) for x in (1 / 3, 0.5, 2.0, 3.0)},
    }
    classes: dict[str, FunctionClass] = {
        **{
            f"noise={x / 10}": NoisyLinear(beside * x / 10, size=ExpectedSize())
            for x in range(1, 50, 2)
        },
        **{f"bias={x / 10}": AffineFunction(beside * x / 10) for x in range(1, 50, 2)},
        **{f"sparse={n}": SparseLinear(n) for n in range(1, dim)},
        "uniform": UniformLinear(),
    }
    task = dataclasses.replace(task, curriculum=None)
    return {
        "standard": task,
        **{n: dataclasses.replace(task, shift=shift) for n, shift in shifts.items()},
        **{n: dataclasses.replace(task, function=f) for n, f in classes.items()},
    }


def exact_noisy_error(task: InContextFunction, noise: float) -> float:
    r"""The error of least squares with noise, divided by the mean square of the values.

    $\sigma^2 (1 + d / (k - d - 1)) / (d + \sigma^2)$ after $k$ pairs of normal points.

    **Arguments:** `noise`: $\sigma$ for 20 components; for others it is as large beside
    the function's values.
    """
    dim, pairs = task.dim, task.points - 1
    variance = noise**2 * dim / _PUBLISHED_DIM
    return variance * (1 + dim / (pairs - dim - 1)) / (dim + variance)


@functools.lru_cache(maxsize=4)
def prompts(
    task: InContextFunction, names: tuple[str, ...] = (), size: int = PROMPTS
) -> PromptSets:
    """The prompts of some settings, of all without `names`; the same for all runs."""
    every = sweeps_of(task)
    chosen = {name: every[name] for name in names or every}
    return draw_prompts(chosen, size, key=jax.random.key(_KEY))


def prompt_task(folder: Path) -> InContextFunction:
    """The task of a run, with whole prompts from the start.

    **Raises:** `TypeError` for a run of another task.
    """
    task = icl.load(folder).experiment.task
    if not isinstance(task, InContextFunction):
        raise TypeError(f"{folder} must be a run of InContextFunction, got {task}")
    return dataclasses.replace(task, curriculum=None)


def robustness(
    folder: Path, names: tuple[str, ...] = (), size: int = PROMPTS
) -> ErrorCurves:
    """The errors of a run's final model after the most pairs, under some settings.

    **Arguments:** `names`: As for `prompts`.
    """
    return errors(icl.load(folder).model, prompts(prompt_task(folder), names, size))


def errors(predictor: Predictor, sets: PromptSets) -> ErrorCurves:
    """The errors of a model or a learner after the most pairs, in one program."""
    return errors_by_context(predictor, sets, positions=[-1])


def baselines(
    task: InContextFunction, names: tuple[str, ...] = (), size: int = PROMPTS
) -> dict[str, ErrorCurves]:
    """The same errors of learners that need no training, by name."""
    sets = prompts(task, names, size)
    return {name: errors(learner, sets) for name, learner in BASELINES.items()}


def by_context(of: Path | Predictor, task: InContextFunction) -> ErrorCurves:
    """The errors of a run's final model, or of a learner, by the number of pairs."""
    predictor = icl.load(of).model if isinstance(of, Path) else of
    return errors_by_context(predictor, prompts(task, ("standard",)))


def drawable(errors: np.ndarray) -> np.ndarray:
    """Without errors that are only rounding: least squares has them from d pairs on."""
    return np.where(errors > 1e-5, errors, np.nan)


@dataclasses.dataclass(frozen=True)
class BatchLosses:
    """The loss of training's batches, over pieces of the training.

    **Fields:**

    - `sequences`: Sequences seen at the middle of each piece, `[piece]`.
    - `losses`: The mean loss in each piece, divided by the number of components in use:
        always predicting 0 has 1. `[piece]`
    """

    sequences: Float[np.ndarray, " piece"]
    losses: Float[np.ndarray, " piece"]


def batch_losses(folder: Path) -> BatchLosses:
    """The loss of a run's batches."""
    trained = icl.load(folder)
    log = training_log(trained, every=1)
    batch = trained.experiment.training.batch_size
    seen, losses = log.pop("step") * batch, log.pop("loss") / log["n_dims"]
    pieces = np.array_split(np.arange(len(seen)), min(_PIECES, len(seen)))
    means = lambda x: np.array([x[piece].mean() for piece in pieces])
    return BatchLosses(means(seen), means(losses))


def mean_of_seeds(curves: Iterable[ErrorCurves]) -> tuple[np.ndarray, ...]:
    """The mean over seeds of some errors, with the ends of their intervals.

    The lower end is the lowest of all seeds' bootstrap intervals (90 %, over prompts),
    the upper end the highest. Each is `[set, position]`.
    """
    every = [*curves]
    bounds = [one.interval() for one in every]
    mean = np.mean([one.mean for one in every], 0)
    lows = np.array([each.low for each in bounds])
    highs = np.array([each.high for each in bounds])
    return mean, lows.min(0), highs.max(0)
