"""Each layer of a model of in-context regression: read out, replaced, mixed.

For tasks of `icl.tasks.regression`. The constructions do steps of gradient descent, or
of GD++ with a `curvature`; they need linear self-attention.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..baselines.curves import best_rate, curve
from ..checks import positive
from ..models.constructions import descent_block, interpolated, with_block
from ..models.stack import StackBlock
from ..tasks.regression import RegressionExample
from ._measure import OfModel
from ._regression import check_linear, check_rate, half_error, of_regression
from ._text import register


@register
def layer_losses() -> OfModel:
    """The loss if the prediction is read after 0, 1, … layers: `[layer]`.

    Every layer is read as the last one is.
    """

    return of_regression(curve, "layer", "loss read after each layer")


@register
def constructed_losses(rate: float | None = None, curvature: float = 0.0) -> OfModel:
    r"""The loss with one layer replaced by its construction: `[layer]`.

    The other layers stay as they are. Tied layers are replaced one at a time, too.

    **Arguments:** `rate`: $\eta$ of the construction; `None` is the best for as many
    steps as the model has layers. `curvature`: $\gamma$ of GD++.
    """

    check_rate(rate, curvature)

    def fn(model: Any, batch: RegressionExample, edits: tuple) -> Array:
        block = _construction(model, batch, rate, curvature)
        found = [
            half_error(with_block(model, layer, block), batch, edits)
            for layer in range(model.num_layers)
        ]
        return jnp.stack(found)

    return of_regression(fn, "layer", "loss with a constructed layer")


@register
def interpolation_losses(
    rate: float | None = None, curvature: float = 0.0, points: int = 11
) -> OfModel:
    r"""The loss on the way from the trained layers to the constructed one: `[point]`.

    The first point is the trained model, in the last all layers are constructed. In
    between, the products of their weights are mixed (`icl.models.constructions`).

    **Arguments:** `rate`, `curvature`: As for `constructed_losses`. `points`: At least
    2, evenly spaced.
    """
    positive("points", points)
    check_rate(rate, curvature)

    def fn(model: Any, batch: RegressionExample, edits: tuple) -> Array:
        block = _construction(model, batch, rate, curvature)
        dim = batch.x.shape[-1]

        def at(share: Array) -> Float[Array, ""]:
            mixed = tuple(interpolated(b, block, share, dim=dim) for b in model.blocks)
            other = eqx.tree_at(lambda m: m.blocks, model, mixed)
            return half_error(other, batch, edits)

        return jax.lax.map(at, jnp.linspace(0.0, 1.0, points))

    label = "loss between the trained layer\nand the constructed one"
    return of_regression(fn, "point", label)


def _construction(
    model: Any, batch: RegressionExample, rate: float | None, curvature: float
) -> StackBlock:
    check_linear(model)
    chosen: Any = best_rate(batch, model.num_layers) if rate is None else rate
    pairs, dim = batch.context_x.shape[-2:]
    settings = {"curvature": curvature, "queries": batch.num_queries}
    return descent_block(dim, pairs, chosen, **settings)
