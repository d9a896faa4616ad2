"""Gates that are learnt, with a penalty on how many of them are open.

Louizos et al. 2018, "Learning Sparse Neural Networks through L0 Regularization", arXiv
1712.01312. A gate is open, shut or in between. It is drawn from a stretched and clipped
concrete distribution, so that the number of open gates has a slope.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


# As in the paper: the temperature, and the ends before values are clipped to 0 and 1.
_TEMPERATURE, _LOW, _HIGH = 2 / 3, -0.1, 1.1


def draw(logits: Float[Array, " gate"], key: Any) -> Float[Array, " gate"]:
    """Gates between 0, shut, and 1, open (equations 10 and 11)."""
    noise = jax.random.logistic(key, logits.shape)
    return _stretched(jax.nn.sigmoid((noise + logits) / _TEMPERATURE))


def likely(logits: Float[Array, " gate"]) -> Float[Array, " gate"]:
    """The gates without noise (equation 13)."""
    return _stretched(jax.nn.sigmoid(logits))


def open_probability(logits: Float[Array, " gate"]) -> Float[Array, " gate"]:
    """How probable it is that a gate is not quite shut (equation 12)."""
    return jax.nn.sigmoid(logits - _TEMPERATURE * np.log(-_LOW / _HIGH))


def _stretched(share: Array) -> Array:
    return jnp.clip(share * (_HIGH - _LOW) + _LOW, 0, 1)


class GateLoss(eqx.Module):
    """How far a metric moves behind drawn gates, plus a price for each that is open.

    **Fields:**

    - `value`: The metric, as a function of how far each edge is cut.
    - `whole`: The metric of the whole model.
    - `gate_of`: The gate of each edge.
    """

    value: Callable[[Array], Array]
    whole: Float[Array, ""]
    gate_of: Int[Array, " edge"]
    penalty: float

    def __call__(self, logits: Float[Array, " gate"], key: Any) -> Float[Array, ""]:
        moved = self.value(1 - draw(logits, key)[self.gate_of]) - self.whole
        return jnp.abs(moved) + self.penalty * jnp.sum(open_probability(logits))
