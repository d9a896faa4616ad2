"""Sparse autoencoders and transcoders: activations as sums of few features.

Cunningham et al. 2023 (arXiv 2309.08600); Gao et al. 2024 (arXiv 2406.04093) for
`TopK`; Dunefsky et al. 2024 (arXiv 2406.11944) for transcoders.
"""

import dataclasses
import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ._checks import whole
from ._fit import minimised
from ._tap import identity, Tap


@dataclasses.dataclass(frozen=True)
class TopK:
    """Keeps the `k` largest features of each vector, and no negative ones."""

    k: int

    def __post_init__(self):
        whole("k", self.k, 1)

    def __call__(self, pre: Float[Array, "... feature"]) -> Float[Array, "... feature"]:
        # Of equal ones, the first: exactly k are kept.
        _, largest = jax.lax.top_k(pre, self.k)
        kept = jnp.zeros(pre.shape, bool)
        kept = jnp.put_along_axis(kept, largest, True, -1, inplace=False)
        return jnp.where(kept, jax.nn.relu(pre), 0)

    def penalty(self, features: Array, sizes: Array) -> Array:
        """None: the number of features is fixed."""
        return jnp.zeros(())


@dataclasses.dataclass(frozen=True)
class ReLU:
    """Keeps positive features. Their sum, times `weight`, is part of the loss."""

    weight: float

    def __call__(self, pre: Float[Array, "... feature"]) -> Float[Array, "... feature"]:
        return jax.nn.relu(pre)

    def penalty(self, features: Array, sizes: Array) -> Array:
        """The mean of the sum of features, each by the length of what it writes."""
        return self.weight * (features * sizes).sum(-1).mean()


class Dictionary(eqx.Module):
    """Features of a vector, and the sum of what they write.

    An autoencoder writes the vector that it reads; a transcoder another one, such as
    what an MLP makes of it.
    """

    encode: Float[Array, "feature size"]
    encode_bias: Float[Array, " feature"]
    decode: Float[Array, "feature out"]
    decode_bias: Float[Array, " out"]
    activation: TopK | ReLU = eqx.field(static=True)

    def __init__(
        self,
        size: int,
        features: int,
        activation: TopK | ReLU,
        *,
        out: int | None = None,
        key: PRNGKeyArray,
    ):
        """Features write random directions, and an autoencoder's read what they write.

        **Arguments:** `size`, `out`: The lengths of the vectors read and written. Give
        `out` for a transcoder.
        """
        size, features = whole("size", size, 1), whole("features", features, 1)
        if isinstance(activation, TopK) and activation.k > features:
            raise ValueError(f"TopK must have k at most {features}, got {activation}")
        keys = jax.random.split(key)
        unit = lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True)
        self.encode = unit(jax.random.normal(keys[0], (features, size)))
        length = size if out is None else out
        other = unit(jax.random.normal(keys[1], (features, length)))
        self.decode = self.encode if out is None else other
        self.encode_bias = jnp.zeros(features)
        self.decode_bias = jnp.zeros(length)
        self.activation = activation

    def features(self, x: Float[Array, "... size"]) -> Float[Array, "... feature"]:
        """The features of vectors; raises `ValueError` for those of another length."""
        if (size := self.encode.shape[1]) != x.shape[-1]:
            raise ValueError(f"the dictionary is for vectors of {size}, got {x.shape}")
        return self.activation(x @ self.encode.T + self.encode_bias)

    def written(self, features: Float[Array, "... feature"]) -> Float[Array, "... out"]:
        """What features write together."""
        return features @ self.decode + self.decode_bias

    def __call__(
        self, x: Float[Array, "... size"], *, axes: str = "size", tap: Tap = identity
    ) -> Float[Array, "... out"]:
        """What the features of vectors write; the features are a site.

        **Arguments:** `axes`: The names of the axes of `x`.
        """
        *lead, _ = axes.split()
        found = tap("features", self.features(x), " ".join([*lead, "feature"]))
        return self.written(found)


class TrainedDictionary(NamedTuple):
    """What `train` gives.

    **Fields:**

    - `dictionary`: With a `ReLU`, its features write vectors of length 1.
    - `losses`: The loss at each step.
    - `active`: For each feature, the share of vectors that have it; 0 if it is dead.
    """

    dictionary: Dictionary
    losses: Float[np.ndarray, " step"]
    active: Float[Array, " feature"]


def train(
    dictionary: Dictionary,
    activations: Float[Array, "... size"],
    *,
    steps: int,
    targets: Float[Array, "... out"] | None = None,
    batch_size: int = 1024,
    optimizer: optax.GradientTransformation | None = None,
    seed: int = 0,
) -> TrainedDictionary:
    """Trains a dictionary on recorded activations.

    The loss is the squared error, summed over a vector and averaged over vectors, plus
    the penalty of the activation function.

    **Arguments:**

    - `activations`: Any record; its last axis is that of the vectors.
    - `targets`: What a transcoder writes, such as the record of `mlp.out`.
    - `steps`, `optimizer`, `seed`: As for `opto.fit`.
    - `batch_size`: How many vectors a step takes, at random.

    **Warns:** If features are dead.

    **Raises:** `ValueError` for vectors that do not fit, and a loss that is not finite.
    """
    flat = lambda x: jnp.asarray(x).reshape(-1, x.shape[-1])
    read, wanted = flat(activations), flat(activations if targets is None else targets)
    sizes = (dictionary.encode.shape[1], dictionary.decode.shape[1])
    if (read.shape[1], wanted.shape[1]) != sizes or len(read) != len(wanted):
        got = f"{read.shape} and {wanted.shape}"
        raise ValueError(f"the dictionary is for vectors of {sizes}, got {got}")
    size = min(whole("batch_size", batch_size, 1), len(read))
    loss = _Loss(read, wanted, dictionary.activation, size)
    found, losses = minimised(loss, dictionary, optimizer, steps, seed)
    lengths = jnp.linalg.norm(found.decode, axis=-1)
    parts = lambda d: (d.encode, d.encode_bias, d.decode)
    unit = (
        found.encode * lengths[:, None],
        found.encode_bias * lengths,
        found.decode / lengths[:, None],
    )
    scaled = eqx.tree_at(parts, found, unit)
    found = scaled if isinstance(dictionary.activation, ReLU) else found
    active = jnp.mean(found.features(read) > 0, 0)
    if dead := int((active == 0).sum()):
        warnings.warn(f"{dead} of {len(active)} features are dead", stacklevel=2)
    return TrainedDictionary(found, losses, active)


class _Loss(eqx.Module):
    read: Array
    wanted: Array
    activation: TopK | ReLU = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __call__(self, dictionary: Dictionary, key: Any) -> Array:
        which = jax.random.choice(key, len(self.read), (self.size,))
        features = dictionary.features(self.read[which])
        missed = dictionary.written(features) - self.wanted[which]
        lengths = jnp.linalg.norm(dictionary.decode, axis=-1)
        penalty = self.activation.penalty(features, lengths)
        return (missed**2).sum(-1).mean() + penalty
