"""What a model does with points of another scale than in training.

For tasks of `icl.tasks.regression`.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..checks import check_scale
from ..tasks.regression import RegressionExample
from ._measure import OfModel
from ._regression import answers, of_regression
from ._text import register


SCALES = (0.5, 1.0, 1.5, 2.0)


@register
def ood_curve(scales: Sequence[float] = SCALES) -> OfModel:
    r"""The loss on scaled points, divided by that of predicting 0: `[scale]`.

    All points, their values and the targets are multiplied by $\alpha$; the weights are
    the same. A linear learner has the same value for each scale, gradient descent has
    not: it diverges for large points.

    **Arguments:** `scales`: The $\alpha$, above 0.
    """
    if np.ndim(scales) != 1 or not len(scales):
        raise ValueError(f"scales must be a list of numbers, got {scales!r}")
    for scale in scales:
        check_scale("scales", scale)

    def fn(model: Any, batch: RegressionExample, edits: tuple) -> Array:
        def ratio(scale: Array) -> Float[Array, ""]:
            scaled = dataclasses.replace(batch, x=scale * batch.x, y=scale * batch.y)
            errors = answers(model, scaled, edits) - scaled.query_y
            return jnp.sum(errors**2) / jnp.sum(scaled.query_y**2)

        return jax.lax.map(ratio, jnp.asarray(scales, batch.x.dtype))

    return of_regression(fn, "scale", "loss, divided by that of predicting 0")
