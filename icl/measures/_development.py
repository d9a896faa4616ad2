"""How outputs and measures move over training: principal components and stages."""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.ndimage
import scipy.signal
from jaxtyping import Float, Num

from ..checks import check_not_negative, positive
from ._measure import EachSequence, Measure
from ._text import register


@register
def model_outputs() -> Measure:
    """A model's outputs on each sequence, flat: `[sequence, output]`."""
    fn = lambda record, outputs, example: jnp.ravel(outputs)
    return Measure(fn, over=EachSequence(), axes="output", label="output")


class OutputsPCA(NamedTuple):
    """Principal components of outputs over training.

    **Fields:**

    - `scores`: Where each checkpoint is, `[checkpoint, component]`.
    - `shares`: The share of the variance over checkpoints of each component.
    - `turning`: By component, the checkpoints (as indices) where it turns.
    """

    scores: Float[np.ndarray, "checkpoint component"]
    shares: Float[np.ndarray, " component"]
    turning: tuple[np.ndarray, ...]


def outputs_pca(
    outputs: Float[np.ndarray, " checkpoint *axes"],
    components: int = 3,
    *,
    smoothing: float = 1.0,
    tolerance: float = 0.05,
) -> OutputsPCA:
    """The essential dynamics of a model: how its outputs move over training.

    Hoogland et al. 2024, arXiv 2402.02364, section 4: the outputs on a fixed set are
    one point for each checkpoint, and few directions have most of the movement.

    **Arguments:**

    - `outputs`: What a replay of `model_outputs` gives.
    - `components`: How many directions, at most as many as checkpoints.
    - `smoothing`: The width of a Gaussian, in checkpoints, before turns are looked for.
    - `tolerance`: A turn stands out by this share of the component's range, or more.

    **Raises:** `ValueError` for outputs that are not finite or settings out of range.
    """
    positive("components", components)
    check_not_negative("smoothing", smoothing)
    flat = np.asarray(outputs, np.float64).reshape(len(outputs), -1)
    if not np.isfinite(flat).all():
        raise ValueError("outputs must be finite at all checkpoints")
    if components > min(flat.shape):
        wanted = f"at most {min(flat.shape)} for outputs of shape {outputs.shape}"
        raise ValueError(f"components must be {wanted}, got {components}")
    centred = flat - flat.mean(0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    scores = (u * s)[:, :components]
    # The sign of a component is free: each ends higher than it begins.
    scores = scores * np.where(scores[-1] < scores[0], -1, 1)
    total = max((s**2).sum(), np.finfo(float).tiny)
    turning = tuple(_turns(x, smoothing, tolerance) for x in scores.T)
    return OutputsPCA(scores, s[:components] ** 2 / total, turning)


def _turns(values: np.ndarray, smoothing: float, tolerance: float) -> np.ndarray:
    """Where a curve has a maximum or a minimum that stands out."""
    smooth = scipy.ndimage.gaussian_filter1d(values, smoothing) if smoothing else values
    least = tolerance * max(np.ptp(smooth), np.finfo(float).tiny)
    found = [scipy.signal.find_peaks(x, prominence=least)[0] for x in (smooth, -smooth)]
    return np.sort(np.concatenate(found))


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of training in which a curve moves one way, or not at all.

    **Fields:**

    - `start`, `end`: Where it begins and ends, in the unit of `at`.
    - `kind`: `"rise"`, `"fall"` or `"plateau"`.
    - `change`: The curve at the end, less that at the start.
    """

    start: float
    end: float
    kind: str
    change: float


def stages(
    at: Num[np.ndarray, " checkpoint"],
    values: Float[np.ndarray, " checkpoint"],
    *,
    tolerance: float = 0.1,
    smoothing: float = 1.0,
) -> list[Stage]:
    """The stages of a curve over training, from the signs of its slopes.

    Slopes are taken over the logarithm of `at`, as stages get longer. Between two
    checkpoints the curve is on a plateau if it would move by less than `tolerance`
    times its range over one unit of the logarithm (a factor of 2.7 in `at`).

    **Arguments:**

    - `at`: Steps or sequences seen; a checkpoint at 0 is left out.
    - `values`: The curve, such as the loss or the local learning coefficient.
    - `tolerance`: See above.
    - `smoothing`: The width of a Gaussian, in checkpoints, before slopes are taken.

    **Raises:** `ValueError` for arrays that do not fit, for fewer than three
    checkpoints, and for numbers that are not finite or not in order.
    """
    at, values = np.asarray(at, float), np.asarray(values, float)
    if at.shape != values.shape or at.ndim != 1:
        raise ValueError(f"wanted one value for each of {at.shape}, got {values.shape}")
    at, values = at[at > 0], values[at > 0]
    if len(at) < 3 or not np.isfinite(values).all() or not (np.diff(at) > 0).all():
        wanted = "three or more checkpoints in order, with finite values"
        raise ValueError(f"stages needs {wanted}, got {len(at)}")
    smooth = scipy.ndimage.gaussian_filter1d(values, smoothing) if smoothing else values
    slopes = np.diff(smooth) / np.diff(np.log(at))
    flat = np.abs(slopes) <= tolerance * max(np.ptp(smooth), np.finfo(float).tiny)
    signs = np.where(flat, 0, np.sign(slopes)).astype(int)
    edges = [0, *(np.nonzero(np.diff(signs))[0] + 1), len(signs)]
    kinds = {1: "rise", -1: "fall", 0: "plateau"}
    return [
        Stage(at[a], at[b], kinds[signs[a]], values[b] - values[a])
        for a, b in zip(edges, edges[1:], strict=False)
    ]
