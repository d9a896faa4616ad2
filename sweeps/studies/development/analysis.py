"""Measurements on these runs: the local learning coefficient and outputs by checkpoint.

Settings were chosen with `icl llc-scan` on runs of seed 0.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.ndimage
from jaxtyping import Float, Int

import icl
from icl import measures

from ...analysis import crossing


SETTINGS = {
    "draws": 150,
    "burn_in": 150,
    "chains": 4,
    "step_size": 3e-5,
    "localization": 300.0,
    "batch_size": 32,
}
"""Of `measures.llc` for regression. Its chains forget their start in 220 steps."""
GENTLE = {**SETTINGS, "step_size": 1e-5, "batch_size": 64}
"""For the induction head, where larger steps overshoot."""
FEW = {**SETTINGS, "chains": 2}
"""For the change of strategies, whose steps take four times as long."""
WHOLE = {"all": "**"}
LAYERS = {**WHOLE, "layer 0": "blocks.0", "layer 1": "blocks.1"}
"""The weights that move, by name."""
_TAKEN = 3  # One checkpoint of three.


class Developed(NamedTuple):
    """A run by checkpoint.

    **Fields:**

    - `seen`: The sequences seen.
    - `loss`: On the whole evaluation set.
    - `coefficients`: Means over chains, by the weights that move.
    """

    seen: Int[np.ndarray, " checkpoint"]
    loss: Float[np.ndarray, " checkpoint"]
    coefficients: Mapping[str, Float[np.ndarray, " checkpoint"]]


def developed(
    folder: Path, weights: Mapping[str, str] = WHOLE, settings: Mapping = SETTINGS
) -> Developed:
    """Loss and coefficients at every third checkpoint, the first and last included."""
    run = icl.load(folder)
    asked = {
        name: measures.llc(**settings, weights=which) for name, which in weights.items()
    }
    asked |= {"loss": measures.task_metric(run.task, "loss")}
    found = icl.replay(run, asked, checkpoints=_checkpoints(run))
    means = {name: found[name].mean(-1) for name in weights}
    return Developed(found.sequences, found["loss"], means)


def essential(folder: Path, components: int = 3) -> measures.OutputsPCA:
    """The principal components of the outputs at the same checkpoints."""
    run = icl.load(folder)
    asked = {"outputs": measures.model_outputs()}
    found = icl.replay(run, asked, checkpoints=_checkpoints(run))
    return measures.outputs_pca(found["outputs"], components)


def _checkpoints(run: icl.experiments.Trained) -> list[int]:
    later = [at for at in run.run.checkpoints if at > 0]
    return sorted({*later[::_TAKEN], later[-1]})


def smooth(values: np.ndarray) -> np.ndarray:
    """The median of each three neighbours: single checkpoints may be off a minimum."""
    return scipy.ndimage.median_filter(values, 3, mode="nearest")


def risen_and_fallen(found: Developed) -> dict[str, float]:
    """When and how far the coefficient rises, and what the loss does meanwhile."""
    seen, loss, raw = found.seen, found.loss, found.coefficients["all"]
    curve = smooth(raw)
    peak = int(curve.argmax())
    before = float(raw[loss >= 0.95 * loss[0]].mean())
    fall = crossing(seen, loss, (loss[0] + loss[-3:].mean()) / 2)
    rise = crossing(seen, -curve, -(before + curve[peak]) / 2)
    return {
        "LLC before": before,
        "LLC at its peak": curve[peak],
        "LLC at the end": raw[-3:].mean(),
        "loss at the peak": loss[peak],
        "loss at the end": loss[-3:].mean(),
        "half of the rise ÷ half of the fall": rise / fall,
    }


def while_strategies_change(found: Developed) -> dict[str, float]:
    """The largest coefficient and the last, with the losses there."""
    curve = found.coefficients["all"]
    peak = int(curve.argmax())
    return {
        "LLC at its peak": curve[peak],
        "LLC at the end": curve[-1],
        "LLC at its peak ÷ at the end": curve[peak] / curve[-1],
        "loss at the peak": found.loss[peak],
        "loss at the end": found.loss[-1],
        "peak at": found.seen[peak],
    }


def across_change(found: Developed, level: float) -> dict[str, float]:
    """Coefficients on the plateau, at their peak and at the end, by what moves.

    The plateau is from a third to two thirds of the time at which the loss falls to
    `level`.
    """
    at = crossing(found.seen, found.loss, level)
    plateau = (found.seen >= at / 3) & (found.seen <= 2 * at / 3)
    later = found.seen > at / 3  # None if the change never came.
    values = {"change at": at}
    for name, raw in found.coefficients.items():
        values |= {
            f"{name}: on the plateau": raw[plateau].mean() if plateau.any() else np.nan,
            f"{name}: at its peak": smooth(raw)[later].max() if later.any() else np.nan,
            f"{name}: at the end": raw[-2:].mean(),
        }
    return values
