"""What the coopetition and the transience paper read off runs.

Layer 0 is the papers' layer 1, and layer 1 their layer 2.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Num

import opto

from .._grafts import sources
from ..experiment import Experiment, Trained
from ..runs import Run
from ._paths import check_two_layers


@dataclass(frozen=True)
class Passage:
    """How a curve comes and goes.

    **Attributes:**

    - `came_at`: Where it first comes up to the level; infinite if it never does, NaN if
        it is at it from the first event on.
    - `peak`, `peak_at`: The largest value, and the sequences seen there.
    - `gone_at`: Where it comes below the level for good; infinite if it is at it at the
        end, NaN if it never was.
    - `final`: The last value.
    """

    came_at: float
    peak: float
    peak_at: float
    gone_at: float
    final: float


def passage(
    sequences: Num[np.ndarray, " event"],
    values: Num[np.ndarray, " event"],
    level: float = 0.5,
) -> Passage:
    """When a curve comes up to a level, is highest, and is below for good; its end.

    What was before training does not count: an untrained model is at chance, which may
    well be the level. Between two events the curve is linear.
    """
    known = np.isfinite(values) & (sequences > 0)
    x, y = sequences[known].astype(float), values[known].astype(float)
    if not y.size:
        return Passage(*[math.nan] * 5)
    top = int(y.argmax())
    there = np.flatnonzero(y >= level)
    came, gone = math.inf, math.nan
    if there.size:
        first, last = int(there[0]), int(there[-1])
        came = _between(x, y, first - 1, level) if first else math.nan
        gone = _between(x, y, last, level) if last + 1 < len(y) else math.inf
    return Passage(came, float(y[top]), float(x[top]), gone, float(y[-1]))


def _between(x: np.ndarray, y: np.ndarray, k: int, level: float) -> float:
    """Where the line from point `k` to the next is at the level."""
    return float(x[k] + (level - y[k]) / (y[k + 1] - y[k]) * (x[k + 1] - x[k]))


def begun(study: str | os.PathLike, pattern: str = "*") -> list[str]:
    """The runs of a study that have logged something, finished or not.

    **Arguments:** `pattern`: Of their names, such as `"omniglot-*"`.
    """
    return sorted(log.parent.name for log in Path(study).glob(f"{pattern}/log.h5"))


def latest_run(*runs: str | os.PathLike) -> Path:
    """The first of some runs that is finished; else the first that has a checkpoint.

    **Raises:** `ValueError` if none has.
    """
    there = [Run(run) for run in runs if _is_run(run)]
    some = [run for run in there if run.checkpoints]
    if not some:
        raise ValueError(f"no checkpoints in any of {', '.join(map(str, runs))}")
    done = [run for run in some if run.finished]
    return [*done, *some][0].path


def _is_run(path: str | os.PathLike) -> bool:
    return os.path.isfile(os.path.join(path, "config.json"))


def training_curve(
    run: str | os.PathLike, metric: str = "loss"
) -> tuple[np.ndarray, np.ndarray]:
    """A metric of the sequences that are trained on, by when the run was evaluated.

    **Returns:**

    Sequences seen, and the mean over the steps since the one before, `[event]` each.
    Empty if there is no such run.
    """
    found = Run(run) if _is_run(run) else None
    if found is None or not found.log.events.any():
        return np.empty(0, np.int64), np.empty(0)
    log, size = found.log, found.config["training"]["batch_size"]
    ends = log.events[log.events > 0] // size
    parts = np.split(log.train[metric][: ends[-1]], ends[:-1])
    return ends * size, np.array([part.mean(dtype=np.float64) for part in parts])


def taken_at(run: str | os.PathLike) -> int | None:
    """How many sequences the other run had seen from which this one has its weights.

    That is what it was started from, or what is grafted into it; `None` if there is no
    such run, or this one is not there.
    """
    if not _is_run(run):
        return None
    experiment = Run(run).read(Experiment)
    if experiment.start is not None:
        return experiment.start.checkpoint
    grafted = sources(experiment.edits)
    return grafted[0][1] if grafted else None


def attention_differences(layer: int, differences: Sequence[float]) -> Any:
    """The query attends to labels alone, clamped, to be swept over.

    **Arguments:**

    - `layer`: Whose heads.
    - `differences`: In [-1, 1], how much more attention the correct label has than the
        incorrect ones: a point for each.
    """
    site = f"blocks.{layer}.attn.pattern"
    weights = [(1 + difference) / 2 for difference in differences]
    return opto.stack([opto.Pattern(opto.Induction(w), site=site) for w in weights])


def without_way_past(layer: int) -> tuple[opto.AbstractEdit, ...]:
    """What comes into a layer reaches its heads alone, not what comes after them.

    Their attention and values are as they were. Edits of these go after.
    """
    return (
        opto.Zero(f"blocks.{layer}.resid_pre"),
        opto.Freeze(f"blocks.{layer}.attn.pattern"),
        opto.Freeze(f"blocks.{layer}.attn.v"),
    )


def lower_layer_ablations(
    trained: Trained,
) -> dict[str, tuple[opto.AbstractEdit, ...]]:
    """Ablations of a model of two layers, by what they take away.

    What layer 0 writes is lost to layer 1's queries, its keys or its values, each time
    together with the way past layer 1, of which the first is alone.

    **Raises:** `ValueError` for another number of layers, or a run trained under edits,
    as what is held is the run without any.
    """
    check_two_layers(trained)
    lost = opto.Zero("blocks.0.attn.z")
    held = {part: opto.Freeze(f"blocks.1.attn.{part}") for part in "qkv"}
    return {
        "nothing": (),
        "layer 0 to the output": (lost, *held.values()),
        "layer 0 to queries": (lost, held["k"], held["v"]),
        "layer 0 to keys": (lost, held["q"], held["v"]),
        "layer 0 to values": (lost, held["q"], held["k"]),
        "all heads": (opto.Zero("blocks.*.attn.z"),),
    }
