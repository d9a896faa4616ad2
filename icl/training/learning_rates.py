"""Learning rates as values; all lengths of time are in sequences seen."""

import dataclasses
import math
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


Config = TypeVar("Config")


def numbers(kind: type[Config]) -> type[Config]:
    """Makes a dataclass a pytree of its fields.

    JAX rebuilds it with tracers and other placeholders for numbers, so this must not go
    through `__init__` and its checks.
    """
    names = [field.name for field in dataclasses.fields(kind)]  # pyright: ignore

    def flatten(config: Config):
        return [getattr(config, name) for name in names], None

    def unflatten(_, values):
        config = object.__new__(kind)
        for name, value in zip(names, values, strict=True):
            object.__setattr__(config, name, value)
        return config

    jax.tree_util.register_pytree_node(kind, flatten, unflatten)
    return kind


def check_ranges(config: Any, **ranges: Any) -> None:
    """Raises `ValueError` for a number outside `[low, high)`."""
    for name, (low, high) in ranges.items():
        value = getattr(config, name)
        if not low <= value < high:
            raise ValueError(f"{name} must be in [{low}, {high}), got {value}")


@numbers
@dataclasses.dataclass(frozen=True)
class Constant:
    """The same learning rate throughout."""

    rate: float
    """The learning rate."""

    def __post_init__(self):
        check_ranges(self, rate=(0, math.inf))

    def at(self, sequences: Float[Array, ""]) -> Float[Array, ""] | float:
        """The learning rate after this many sequences."""
        return self.rate


@numbers
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
        check_ranges(self, peak=(0, math.inf), warmup=(1, math.inf))

    def at(self, sequences: Float[Array, ""]) -> Float[Array, ""]:
        """The learning rate after this many sequences."""
        warmup = jnp.maximum(self.warmup, 1.0)
        down = jnp.sqrt(warmup / jnp.maximum(sequences, 1.0))
        return self.peak * jnp.minimum(sequences / warmup, down)


@numbers
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
        every = (0, math.inf)
        check_ranges(self, peak=every, warmup=every, final=every)
        check_ranges(self, total=(max(self.warmup, 1), math.inf))

    def at(self, sequences: Float[Array, ""]) -> Float[Array, ""]:
        """The learning rate after this many sequences."""
        span = jnp.maximum(self.total - self.warmup, 1.0)
        t = jnp.clip((sequences - self.warmup) / span, 0.0, 1.0)
        down = self.final + (self.peak - self.final) * 0.5 * (1 + jnp.cos(jnp.pi * t))
        up = self.peak * sequences / jnp.maximum(self.warmup, 1.0)
        return jnp.where(sequences < self.warmup, up, down)


@numbers
@dataclasses.dataclass(frozen=True)
class OneCycle:
    r"""Half a cosine up to `peak`, then half a cosine down to nearly 0 (Smith 2018).

    As PyTorch's `OneCycleLR`: from peak / 25 up, then down to peak / 250,000. There,
    the last of $T$ steps has the last rate: with batches of $B$ sequences, `total` is
    $(T - 1) B$ and `warmup` is $(p T - 1) B$, where $p$ is `pct_start`.
    """

    peak: float
    """The largest rate."""
    total: float
    """Sequences until the last rate, including the warm-up."""
    warmup: float
    """Sequences until the largest rate."""

    def __post_init__(self):
        check_ranges(self, peak=(0, math.inf), warmup=(0, math.inf))
        check_ranges(self, total=(max(self.warmup, 1), math.inf))

    def at(self, sequences: Float[Array, ""]) -> Float[Array, ""]:
        """The learning rate after this many sequences."""
        low, last = self.peak / 25, self.peak / 250_000
        return _one_cycle(self, sequences, low, self.peak, last)


@numbers
@dataclasses.dataclass(frozen=True)
class OneCycleMomentum:
    """The decay of a mean gradient that goes against a `OneCycle` rate (Smith 2018).

    Half a cosine down from `high` to `low`, then half a cosine up again.
    """

    total: float
    """As for `OneCycle`."""
    warmup: float
    """As for `OneCycle`."""
    low: float = 0.85
    """The decay while the rate is largest."""
    high: float = 0.95
    """The decay at the beginning and at the end."""

    def __post_init__(self):
        check_ranges(self, low=(0, 1), high=(0, 1), warmup=(0, math.inf))
        check_ranges(self, total=(max(self.warmup, 1), math.inf))

    def at(self, sequences: Float[Array, ""]) -> Float[Array, ""]:
        """The decay after this many sequences."""
        return _one_cycle(self, sequences, self.high, self.low, self.high)


def _one_cycle(
    times: OneCycle | OneCycleMomentum, sequences: Float[Array, ""], *values: Any
) -> Float[Array, ""]:
    """Half a cosine from the first to the second value, then to the third."""
    first, second, third = values
    up = jnp.clip(sequences / jnp.maximum(times.warmup, 1.0), 0.0, 1.0)
    span = jnp.maximum(times.total - times.warmup, 1.0)
    down = jnp.clip((sequences - times.warmup) / span, 0.0, 1.0)

    def between(a, b, t):
        # Not (1 + cos)/2: that is inexact where it is small.
        return a * jnp.cos(0.5 * jnp.pi * t) ** 2 + b * jnp.sin(0.5 * jnp.pi * t) ** 2

    rising, falling = between(first, second, up), between(second, third, down)
    return jnp.where(sequences < times.warmup, rising, falling)


LearningRate = Constant | WarmupDecay | Cosine | OneCycle
