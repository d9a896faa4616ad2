"""What the coopetition and the transience paper read off runs.

Layer 0 is the papers' layer 1, and layer 1 their layer 2.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Num

import opto

from .._grafts import sources
from ..config import from_json
from ..experiment import Experiment
from ..plots import DrawnFigure, Quantity, style
from ..runs import Run


@dataclass(frozen=True)
class Passage:
    """How a curve comes and goes; NaN for what does not happen.

    **Attributes:**

    - `peak`, `peak_at`: The largest value, and the sequences seen there.
    - `gone_at`: Where it comes below the level for good; NaN if it was never at it, or
        is at the end.
    - `final`: The last value.
    """

    peak: float
    peak_at: float
    gone_at: float
    final: float


def passage(
    sequences: Num[np.ndarray, " event"],
    values: Num[np.ndarray, " event"],
    level: float = 0.5,
) -> Passage:
    """When a curve is highest, when it is below a level for good, and where it ends.

    What was before training does not count: an untrained model is at chance, which may
    well be the level. Between two events the curve is linear.
    """
    known = np.isfinite(values) & (sequences > 0)
    x, y = sequences[known].astype(float), values[known].astype(float)
    if not y.size:
        return Passage(math.nan, math.nan, math.nan, math.nan)
    top = int(y.argmax())
    there = np.flatnonzero(y >= level)
    gone = math.nan
    if there.size and there[-1] + 1 < len(y):
        last = int(there[-1])
        part = (y[last] - level) / (y[last] - y[last + 1])
        gone = float(x[last] + part * (x[last + 1] - x[last]))
    return Passage(float(y[top]), float(x[top]), gone, float(y[-1]))


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


def curve_so_far(
    run: str | os.PathLike, metric: str = "loss", *, data: str = "train"
) -> tuple[np.ndarray, np.ndarray]:
    """`Study.curve` of a run that need not be finished.

    **Returns:** Sequences seen and values, `[event]` each; empty for what is not there.
    """
    if _is_run(run):
        log = Run(run).log
        if metric in (found := log.evaluations.get(data, {})):
            return log.events, found[metric].mean(1, dtype=np.float64)
    return np.empty(0, np.int64), np.empty(0)


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
    experiment = from_json(Experiment, Run(run).config)
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


def lower_layer_ablations() -> dict[str, tuple[opto.AbstractEdit, ...]]:
    """Ablations of a model of two layers, by what they take away.

    What layer 0 writes is lost to layer 1's queries, its keys or its values, each time
    together with the way past layer 1, of which the first is alone.
    """
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


def clamped_attention(
    differences: Float[np.ndarray, " difference"],
    accuracies: Mapping[str, Float[np.ndarray, "difference head"]],
) -> DrawnFigure:
    """The figure of `attention_differences`, a line for each head.

    **Arguments:**

    - `differences`: What was clamped.
    - `accuracies`: Of each head, by the title of the panel.
    """
    figure = DrawnFigure(figsize=(3.0 * len(accuracies) + 0.6, 2.6))
    label = "accuracy among labels in context"
    with style():
        figure.set_layout_engine("constrained")
        axes = figure.subplots(1, len(accuracies), sharey=True, squeeze=False)[0]
        for ax, (title, values) in zip(axes, accuracies.items(), strict=True):
            for head, curve in enumerate(values.T):
                ax.plot(differences, curve, label=f"{head}")
            ax.axhline(0.5, color="0.6", lw=0.8, ls=":")
            ax.set_xlabel("attention to the correct label\nless the incorrect")
            ax.set_title(title)
        axes[0].set(ylabel=label.replace(" labels", "\nlabels"), ylim=(0, 1.02))
        lines, names = axes[0].get_legend_handles_labels()
        figure.legend(lines, names, loc="outside right upper", title="head")
    where = {"difference": differences}
    figure.drawn = {
        title: Quantity(values, {**where, "head": np.arange(values.shape[1])}, label)
        for title, values in accuracies.items()
    }
    return figure
