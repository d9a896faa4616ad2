"""Random numbers with the bits of `jax.random`, at a lower cost on CPUs.

JAX computes Threefry on CPUs as a loop over whole arrays, to compile faster. Written
without a loop, XLA fuses it: the numbers of in-context regression then cost a third.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray, UInt32

from .compile import computed_once


_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)


def uniform(
    key: PRNGKeyArray, shape: tuple[int, ...], *, minval: float, maxval: float
) -> Float[Array, "..."]:
    """As `jax.random.uniform`, to the same bits."""
    if not _is_threefry(key):
        return jax.random.uniform(key, shape, minval=minval, maxval=maxval)
    # Numbers in [1, 2) have all exponents equal, so their fractions are uniform.
    fractions = (_bits(key, math.prod(shape)) >> 9) | np.uint32(0x3F800000)
    floats = jax.lax.bitcast_convert_type(fractions, jnp.float32) - 1
    low, high = np.float32(minval), np.float32(maxval)
    return jnp.maximum(low, floats * (high - low) + low).reshape(shape)


def normal(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """As `jax.random.normal`, to the same bits."""
    if not _is_threefry(key):
        return jax.random.normal(key, shape)
    low = float(np.nextafter(np.float32(-1), np.float32(0)))
    # In one loop with Threefry, the inverse of the error function is slow on a CPU.
    where = computed_once(uniform(key, shape, minval=low, maxval=1.0))
    return np.float32(np.sqrt(2)) * jax.lax.erf_inv(where)


def split(key: PRNGKeyArray, num: int = 2) -> Key[Array, " {num}"]:
    """As `jax.random.split`, to the same bits."""
    if not _is_threefry(key):
        return jax.random.split(key, num)
    words = jnp.stack(_words(key, num), -1)
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def _is_threefry(key: PRNGKeyArray) -> bool:
    """Whether these are JAX's default bits, which this file computes."""
    config = jax.config
    plain = not config.jax_enable_x64 and config.jax_threefry_partitionable  # pyright: ignore
    return plain and str(jax.random.key_impl(key)) == "threefry2x32"


def _bits(key: PRNGKeyArray, count: int) -> UInt32[Array, " {count}"]:
    first, second = _words(key, count)
    return first ^ second


def _words(
    key: PRNGKeyArray, count: int
) -> tuple[UInt32[Array, " {count}"], UInt32[Array, " {count}"]]:
    """Threefry-2x32 of the counters 0, 1, …: its two words.

    20 rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
    """
    first, second = jax.random.key_data(key)
    keys = first, second, first ^ second ^ np.uint32(0x1BD11BDA)
    x = jnp.broadcast_to(first, (count,))
    y = jnp.arange(count, dtype=jnp.uint32) + second
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x = x + y
            y = x ^ ((y << rotation) | (y >> (32 - rotation)))
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y
