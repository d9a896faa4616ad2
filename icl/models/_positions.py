"""How a transformer knows the order of its tokens.

Each kind is a frozen config; `build` makes the module. A module may change the embedded
tokens, the queries and keys, or neither.
"""

import abc
import dataclasses
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ..checks import check_one_of, check_scale, positive


class AbstractPositions(eqx.Module):
    """The effect of a position encoding on the tokens of one sequence."""

    @abc.abstractmethod
    def embed(self, x: Float[Array, "seq d_model"]) -> Float[Array, "seq d_model"]:
        """The embedded tokens with their positions added."""

    @abc.abstractmethod
    def rotate(
        self, x: Float[Array, "seq head d_head"], start: int
    ) -> Float[Array, "seq head d_head"]:
        """Queries or keys of the tokens at positions `start`, `start + 1`, …"""


class _Unchanged(AbstractPositions):
    def embed(self, x):
        return x

    def rotate(self, x, start):
        return x


@dataclasses.dataclass(frozen=True)
class NoPositions:
    """No position encoding; the order shows only through the causal mask."""

    def build(self, d_model: int, *, key: PRNGKeyArray) -> AbstractPositions:
        return _Unchanged()


class Rotary(AbstractPositions):
    """Rotary positions of tokens that are counted from the first; see `Rope`."""

    rope: "Rope" = eqx.field(static=True)
    counts: Int[Array, " seq"] | None = None
    """Positions of the tokens, if some of them are padding."""

    def embed(self, x):
        return x

    def rotate(self, x, start):
        seq, _, d_head = x.shape
        turning = self.rope.turning(d_head)
        angle = np.arange(start + seq)[:, None] * self.rope.frequencies(turning)
        cos, sin = (
            jnp.asarray(turn(angle), x.dtype)[:, None] for turn in (np.cos, np.sin)
        )
        rows = slice(start, None)
        if self.counts is not None:
            cos, sin = cos[self.counts], sin[self.counts]
        return self.rope.turned(x, cos[rows], sin[rows])


Pairs = Literal["neighbours", "halves"]


@dataclasses.dataclass(frozen=True)
class LinearScaling:
    """Positions divided by a factor (Chen et al. 2023, arXiv 2306.15595)."""

    factor: float = 1.0
    """How many times longer sequences may be."""

    def __post_init__(self):
        check_scale("factor", self.factor)

    def __call__(self, frequencies: np.ndarray) -> np.ndarray:
        return frequencies / self.factor


@dataclasses.dataclass(frozen=True)
class Llama3Scaling:
    """Slow turns are slowed further, fast ones are kept (Llama 3.1, arXiv 2407.21783).

    Wavelengths above `length / low` tokens are stretched by `factor`, those below
    `length / high` are as they were, and between the two there is a transition.
    """

    factor: float = 8.0
    """How many times longer sequences may be."""
    low: float = 1.0
    """Turns within `length` of the slowest that change only in part."""
    high: float = 4.0
    """Turns within `length` of the slowest that do not change."""
    length: int = 8192
    """The length of sequences in the first training."""

    def __post_init__(self):
        for name in ("factor", "low", "high", "length"):
            check_scale(name, getattr(self, name))
        if self.low >= self.high:
            raise ValueError(f"low must be below high={self.high}, got {self.low}")

    def __call__(self, frequencies: np.ndarray) -> np.ndarray:
        turns = self.length * frequencies / (2 * np.pi)
        kept = np.clip((turns - self.low) / (self.high - self.low), 0, 1)
        return (1 - kept) * frequencies / self.factor + kept * frequencies


@dataclasses.dataclass(frozen=True)
class Rope:
    r"""Rotary positions (Su et al. 2021, "RoFormer", eq. 34).

    At position $t$, the pair of entries $(2i, 2i + 1)$ of queries and keys turns by
    $t\,\theta^{-2i / d}$, where $d$ is the head's dimension.
    """

    theta: float = 1e4
    """The base of the wavelengths."""
    share: float = 1.0
    """The share of a head's entries that turn, the first ones; $d$ is their number."""
    pairs: Pairs = "neighbours"
    """Whether entry $i$ turns with its neighbour, or with entry $i + d / 2$."""
    scaling: LinearScaling | Llama3Scaling | None = None
    """For sequences that are longer than those of the first training."""

    def __post_init__(self):
        check_scale("theta", self.theta)
        check_scale("share", self.share)
        if self.share > 1:
            raise ValueError(f"share must be at most 1, got {self.share}")
        check_one_of("pairs", self.pairs, Pairs)

    def build(self, d_model: int, *, key: PRNGKeyArray) -> AbstractPositions:
        return Rotary(self)

    def turning(self, d_head: int) -> int:
        """How many entries of a head turn."""
        return int(d_head * self.share)

    def frequencies(self, dim: int) -> Float[np.ndarray, " pair"]:
        """Radians a token, of each pair."""
        found = self.theta ** (-np.arange(0, dim, 2) / dim)
        return found if self.scaling is None else self.scaling(found)

    def turned(
        self,
        x: Float[Array, "seq head d_head"],
        cos: Float[Array, "seq 1 pair"],
        sin: Float[Array, "seq 1 pair"],
    ) -> Float[Array, "seq head d_head"]:
        """Queries or keys, each pair turned by its angle."""
        dim = self.turning(x.shape[-1])
        turning, rest = x[..., :dim], x[..., dim:]
        if self.pairs == "halves":
            first, second = jnp.split(turning, 2, -1)
            parts = [first * cos - second * sin, second * cos + first * sin]
            return jnp.concatenate([*parts, rest], -1)
        even, odd = turning[..., ::2], turning[..., 1::2]
        turned = jnp.stack([even * cos - odd * sin, even * sin + odd * cos], -1)
        turned = turned.reshape(turning.shape)
        return jnp.concatenate([turned, rest], -1) if rest.shape[-1] else turned


class _Sinusoidal(AbstractPositions):
    theta: float = eqx.field(static=True)

    def embed(self, x):
        seq, d_model = x.shape
        return x + sinusoids(seq, d_model, self.theta).astype(x.dtype)

    def rotate(self, x, start):
        return x


@dataclasses.dataclass(frozen=True)
class Sinusoidal:
    r"""Sines and cosines added to the embedding (Vaswani et al. 2017, section 3.5).

    Position $t$ adds $\sin(t\,\theta^{-2i/d})$ to entry $2i$ and the cosine to entry
    $2i + 1$, where $d$ is the model's dimension, which must be even.
    """

    theta: float = 1e4
    """The base of the wavelengths."""

    def __post_init__(self):
        check_scale("theta", self.theta)

    def build(self, d_model: int, *, key: PRNGKeyArray) -> AbstractPositions:
        if d_model % 2:
            raise ValueError(f"d_model must be even for Sinusoidal, got {d_model}")
        return _Sinusoidal(self.theta)


class LearnedPositions(AbstractPositions):
    """A vector for each position, added to the token there; see `Learned`."""

    table: Float[Array, "max_length d_model"]

    def embed(self, x, real=None):
        """With the vectors added. Only tokens that are `real` count as positions."""
        if len(x) > len(self.table):
            raise ValueError(
                f"Learned positions end at {len(self.table)} tokens, got {len(x)}"
            )
        if real is None:
            return x + self.table[: len(x)]
        return x + self.table[jnp.maximum(jnp.cumsum(real) - 1, 0)]

    def rotate(self, x, start):
        return x


@dataclasses.dataclass(frozen=True)
class Learned:
    r"""A learned vector for each position, added to the embedding.

    Initialised uniformly in $\pm 1/\sqrt{32}$, a standard deviation of 0.1. This is as
    in https://github.com/aadityasingh/icl-dynamics, which uses a linear layer on
    one-hot vectors of length 32. The scale matters: with 0.02, as for labels,
    in-context learning does not emerge in the transience runs of
    `sweeps/studies/transience`.
    """

    max_length: int = 64
    """The number of tokens of the longest sequence."""

    def __post_init__(self):
        positive("max_length", self.max_length)

    def build(self, d_model: int, *, key: PRNGKeyArray) -> AbstractPositions:
        bound = 32**-0.5
        shape = self.max_length, d_model
        return LearnedPositions(
            jax.random.uniform(key, shape, minval=-bound, maxval=bound)
        )


Positions = Rope | Sinusoidal | Learned | NoPositions


def sinusoids(
    seq: int, dim: int, theta: float = 1e4
) -> Float[np.ndarray, "{seq} {dim}"]:
    r"""Sines at even and cosines at odd entries; see `Sinusoidal`.

    An odd `dim` ends with a sine.
    """
    angle = _angles(np.arange(seq), dim, theta)
    table = np.stack([np.sin(angle), np.cos(angle)], -1)
    return table.reshape(seq, -1)[:, :dim]


def _angles(positions: np.ndarray, dim: int, theta: float) -> np.ndarray:
    return positions[:, None] * theta ** (-np.arange(0, dim, 2) / dim)
