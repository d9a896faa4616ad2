"""Optimizers and learning rates as values.

They are frozen dataclasses and pytrees of their numbers. So runs that differ in a
number can train side by side in one program. All lengths of time are in sequences seen.
"""

import dataclasses
import math
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float


_Config = TypeVar("_Config")


def _numbers(kind: type[_Config]) -> type[_Config]:
    """Makes a dataclass a pytree of its fields.

    JAX rebuilds it with tracers and other placeholders for numbers, so this must not go
    through `__init__` and its checks.
    """
    names = [field.name for field in dataclasses.fields(kind)]  # pyright: ignore

    def flatten(config: _Config):
        return [getattr(config, name) for name in names], None

    def unflatten(_, values):
        config = object.__new__(kind)
        for name, value in zip(names, values, strict=True):
            object.__setattr__(config, name, value)
        return config

    jax.tree_util.register_pytree_node(kind, flatten, unflatten)
    return kind


def _check(config: Any, **ranges: Any) -> None:
    """Raises `ValueError` for a number outside `[low, high)`."""
    for name, (low, high) in ranges.items():
        value = getattr(config, name)
        if not low <= value < high:
            raise ValueError(f"{name} must be in [{low}, {high}), got {value}")


def _check_optimizer(optimizer: Any, **ranges: Any) -> None:
    rate, clip = optimizer.learning_rate, optimizer.clip_norm
    if not isinstance(rate, LearningRate):
        wanted = "Constant, WarmupDecay or Cosine"
        raise ValueError(f"learning_rate must be {wanted}, got {rate}")
    if clip is not None and not 0 < clip < math.inf:
        raise ValueError(f"clip_norm must be positive or None, got {clip}")
    _check(optimizer, **ranges)
    if getattr(optimizer, "eps", 1.0) == 0:
        # A weight whose gradient was always zero would become NaN.
        raise ValueError("eps must be positive, got 0")


@_numbers
@dataclasses.dataclass(frozen=True)
class Constant:
    """The same learning rate throughout."""

    rate: float
    """The learning rate."""

    def __post_init__(self):
        _check(self, rate=(0, math.inf))

    def at(self, sequences: Float[Array, ""]) -> Float[Array, ""] | float:
        """The learning rate after this many sequences."""
        return self.rate


@_numbers
@dataclasses.dataclass(frozen=True)
class WarmupDecay:
    r"""Linear warm-up, then decay with the inverse square root.

    After $s$ sequences the rate is $\text{peak}\cdot\min(s / w, \sqrt{w / s})$, where
    $w$ sequences are the warm-up (Vaswani et al. 2017, section 5.3; Singh et al. 2023).
    """

    peak: float
    """The largest rate, at the end of the warm-up."""
    warmup: float
    """Sequences of warm-up, at least one."""

    def __post_init__(self):
        _check(self, peak=(0, math.inf), warmup=(1, math.inf))

    def at(self, sequences: Float[Array, ""]) -> Float[Array, ""]:
        """The learning rate after this many sequences."""
        warmup = jnp.maximum(self.warmup, 1.0)
        down = jnp.sqrt(warmup / jnp.maximum(sequences, 1.0))
        return self.peak * jnp.minimum(sequences / warmup, down)


@_numbers
@dataclasses.dataclass(frozen=True)
class Cosine:
    r"""Linear warm-up, then half a cosine down to `final` (Loshchilov & Hutter 2017).

    $\text{final} + (\text{peak} - \text{final})\,(1 + \cos \pi t) / 2$, where $t$ goes
    from 0 at the end of the warm-up to 1 at `total` sequences; `final` after that.
    """

    peak: float
    """The largest rate, at the end of the warm-up."""
    total: float
    """Sequences until the rate is `final`, including the warm-up."""
    warmup: float = 0.0
    """Sequences of warm-up."""
    final: float = 0.0
    """The last rate."""

    def __post_init__(self):
        _check(self, peak=(0, math.inf), warmup=(0, math.inf), final=(0, math.inf))
        _check(self, total=(self.warmup, math.inf))

    def at(self, sequences: Float[Array, ""]) -> Float[Array, ""]:
        """The learning rate after this many sequences."""
        span = jnp.maximum(self.total - self.warmup, 1.0)
        t = jnp.clip((sequences - self.warmup) / span, 0.0, 1.0)
        down = self.final + (self.peak - self.final) * 0.5 * (1 + jnp.cos(jnp.pi * t))
        up = self.peak * sequences / jnp.maximum(self.warmup, 1.0)
        return jnp.where(sequences < self.warmup, up, down)


LearningRate = Constant | WarmupDecay | Cosine


@_numbers
@dataclasses.dataclass(frozen=True)
class Adam:
    """Adam (Kingma & Ba 2015)."""

    learning_rate: LearningRate = Constant(1e-5)
    """`Constant`, `WarmupDecay` or `Cosine`."""
    b1: float = 0.9
    """Decay of the mean of the gradient."""
    b2: float = 0.999
    """Decay of the mean of the squared gradient."""
    eps: float = 1e-8
    """Added to the root of the mean square."""
    clip_norm: float | None = None
    """The largest global norm of the gradient; `None` does not clip."""

    def __post_init__(self):
        _check_optimizer(self, b1=(0, 1), b2=(0, 1), eps=(0, math.inf))

    def transform(self, batch_size: int) -> optax.GradientTransformation:
        """The optax transformation, for steps of `batch_size` sequences."""
        adam = optax.scale_by_adam(self.b1, self.b2, self.eps)
        return _chain(self.clip_norm, adam, _rate(self.learning_rate, batch_size))


@_numbers
@dataclasses.dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

    learning_rate: LearningRate = Constant(1e-4)
    """`Constant`, `WarmupDecay` or `Cosine`."""
    weight_decay: float = 0.01
    """Each step subtracts weight decay × learning rate × weight from every weight."""
    b1: float = 0.9
    """Decay of the mean of the gradient."""
    b2: float = 0.999
    """Decay of the mean of the squared gradient."""
    eps: float = 1e-8
    """Added to the root of the mean square."""
    clip_norm: float | None = None
    """The largest global norm of the gradient; `None` does not clip."""

    def __post_init__(self):
        decay = (0, math.inf)
        _check_optimizer(
            self, weight_decay=decay, b1=(0, 1), b2=(0, 1), eps=(0, math.inf)
        )

    def transform(self, batch_size: int) -> optax.GradientTransformation:
        """The optax transformation, for steps of `batch_size` sequences."""
        adam = optax.scale_by_adam(self.b1, self.b2, self.eps)
        decay = optax.add_decayed_weights(self.weight_decay)
        return _chain(
            self.clip_norm, adam, decay, _rate(self.learning_rate, batch_size)
        )


@_numbers
@dataclasses.dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent with heavy-ball momentum."""

    learning_rate: LearningRate = Constant(1e-2)
    """`Constant`, `WarmupDecay` or `Cosine`."""
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


def _chain(clip_norm, *steps) -> optax.GradientTransformation:
    clip = () if clip_norm is None else (optax.clip_by_global_norm(clip_norm),)
    return optax.chain(*clip, *steps)


def _rate(learning_rate: LearningRate, batch_size: int):
    # Descent: only here is there a minus sign.
    return optax.scale_by_schedule(
        lambda count: -1.0 * learning_rate.at(jnp.asarray(count, float) * batch_size)
    )
