"""How a transformer knows the order of its tokens.

Each kind is a frozen config; `build` makes the module. A module may change the embedded
tokens, the queries and keys, or neither.
"""

import abc
import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..checks import check_scale, positive


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


class _Rotary(AbstractPositions):
    theta: float = eqx.field(static=True)

    def embed(self, x):
        return x

    def rotate(self, x, start):
        seq, _, d_head = x.shape
        angle = _angles(start + np.arange(seq), d_head, self.theta)[:, None]
        cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
        even, odd = x[..., ::2], x[..., 1::2]
        turned = jnp.stack([even * cos - odd * sin, even * sin + odd * cos], -1)
        return turned.reshape(x.shape)


@dataclasses.dataclass(frozen=True)
class Rope:
    r"""Rotary positions (Su et al. 2021, "RoFormer", eq. 34).

    At position $t$, the pair of entries $(2i, 2i + 1)$ of queries and keys turns by
    $t\,\theta^{-2i / d}$, where $d$ is the head's dimension.
    """

    theta: float = 1e4
    """The base of the wavelengths."""

    def __post_init__(self):
        check_scale("theta", self.theta)

    def build(self, d_model: int, *, key: PRNGKeyArray) -> AbstractPositions:
        return _Rotary(self.theta)


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

    def embed(self, x):
        if len(x) > len(self.table):
            raise ValueError(
                f"Learned positions end at {len(self.table)} tokens, got {len(x)}"
            )
        return x + self.table[: len(x)]

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
