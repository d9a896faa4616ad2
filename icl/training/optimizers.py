"""Optimizers and learning rates as values.

They are frozen dataclasses and pytrees of their numbers. So runs that differ in a
number can train side by side in one program. All lengths of time are in sequences seen.
"""

import dataclasses
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

from .learning_rates import (
    check_ranges,
    Constant as Constant,
    Cosine as Cosine,
    LearningRate as LearningRate,
    numbers,
    OneCycle as OneCycle,
    OneCycleMomentum as OneCycleMomentum,
    WarmupDecay as WarmupDecay,
)


# Smaller numbers are 0 in single precision. With an `eps` of 0, a weight whose gradient
# was always 0 would become NaN.
_LEAST = float(np.finfo(np.float32).tiny)


def _check_optimizer(optimizer: Any, **ranges: Any) -> None:
    rate = optimizer.learning_rate
    if not isinstance(rate, LearningRate):
        wanted = "Constant, WarmupDecay, Cosine or OneCycle"
        raise ValueError(f"learning_rate must be {wanted}, got {rate}")
    if optimizer.clip_norm is not None:
        ranges["clip_norm"] = _LEAST, math.inf
    check_ranges(optimizer, **ranges)


def _check_adam(optimizer: Any, **ranges: Any) -> None:
    if not isinstance(optimizer.b1, OneCycleMomentum):
        ranges["b1"] = 0, 1
    _check_optimizer(optimizer, b2=(0, 1), eps=(_LEAST, math.inf), **ranges)


@numbers
@dataclasses.dataclass(frozen=True)
class Adam:
    """Adam (Kingma & Ba 2015)."""

    learning_rate: LearningRate = Constant(1e-5)
    """`Constant`, `WarmupDecay`, `Cosine` or `OneCycle`."""
    b1: float | OneCycleMomentum = 0.9
    """Decay of the mean of the gradient. `OneCycleMomentum` goes with `OneCycle`."""
    b2: float = 0.999
    """Decay of the mean of the squared gradient."""
    eps: float = 1e-8
    """Added to the root of the mean square."""
    clip_norm: float | None = None
    """The largest global norm of the gradient; `None` does not clip."""

    def __post_init__(self):
        _check_adam(self)

    def transform(self, batch_size: int) -> optax.GradientTransformation:
        """The optax transformation, for steps of `batch_size` sequences."""
        adam = _adam(self, batch_size)
        return _chain(self.clip_norm, adam, _rate(self.learning_rate, batch_size))


@numbers
@dataclasses.dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

    learning_rate: LearningRate = Constant(1e-4)
    """`Constant`, `WarmupDecay`, `Cosine` or `OneCycle`."""
    weight_decay: float = 0.01
    """Each step subtracts weight decay × learning rate × weight from every weight."""
    b1: float | OneCycleMomentum = 0.9
    """Decay of the mean of the gradient. `OneCycleMomentum` goes with `OneCycle`."""
    b2: float = 0.999
    """Decay of the mean of the squared gradient."""
    eps: float = 1e-8
    """Added to the root of the mean square."""
    clip_norm: float | None = None
    """The largest global norm of the gradient; `None` does not clip."""

    def __post_init__(self):
        _check_adam(self, weight_decay=(0, math.inf))

    def transform(self, batch_size: int) -> optax.GradientTransformation:
        """The optax transformation, for steps of `batch_size` sequences."""
        adam = _adam(self, batch_size)
        decay = optax.add_decayed_weights(self.weight_decay)
        return _chain(
            self.clip_norm, adam, decay, _rate(self.learning_rate, batch_size)
        )


@numbers
@dataclasses.dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent with heavy-ball momentum."""

    learning_rate: LearningRate = Constant(1e-2)
    """`Constant`, `WarmupDecay`, `Cosine` or `OneCycle`."""
    momentum: float = 0.0
    """The share of the last update in the next, in [0, 1)."""
    weight_decay: float = 0.0
    """Multiplied by the weights and added to the gradient."""
    clip_norm: float | None = None
    """The largest global norm of the gradient; `None` does not clip."""

    def __post_init__(self):
        _check_optimizer(self, momentum=(0, 1), weight_decay=(0, math.inf))

    def transform(self, batch_size: int) -> optax.GradientTransformation:
        """The optax transformation, for steps of `batch_size` sequences."""
        decay = optax.add_decayed_weights(self.weight_decay)
        momentum = optax.trace(self.momentum)
        rate = _rate(self.learning_rate, batch_size)
        return _chain(self.clip_norm, decay, momentum, rate)


Optimizer = Adam | AdamW | SGD


def _adam(optimizer: Adam | AdamW, batch_size: int) -> optax.GradientTransformation:
    b1, b2, eps = optimizer.b1, optimizer.b2, optimizer.eps
    if not isinstance(b1, OneCycleMomentum):
        return optax.scale_by_adam(b1, b2, eps)

    def update(updates, state, params=None):
        now = b1.at(jnp.asarray(state.count, float) * batch_size)
        return optax.scale_by_adam(now, b2, eps).update(updates, state, params)

    # The state does not depend on the decays.
    return optax.GradientTransformation(optax.scale_by_adam().init, update)


def _chain(clip_norm, *steps) -> optax.GradientTransformation:
    clip = () if clip_norm is None else (optax.clip_by_global_norm(clip_norm),)
    return optax.chain(*clip, *steps)


def _rate(learning_rate: LearningRate, batch_size: int):
    # Descent: only here is there a minus sign.
    return optax.scale_by_schedule(
        lambda count: -1.0 * learning_rate.at(jnp.asarray(count, float) * batch_size)
    )
