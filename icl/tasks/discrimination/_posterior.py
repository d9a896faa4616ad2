"""Integrals over the hidden parameters, as sums over fixed nodes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


# Enough for the spread of the integrands of 500 points; tests compare with SciPy.
_SPHERE_NODES, _SCALE_NODES = 160, 600


def log_sphere_mean(h: Float[Array, " dim"]) -> Float[Array, ""]:
    r"""$\ln E[e^{h \cdot \mu}]$ for $\mu$ uniform on the unit sphere.

    With $v = d/2 - 1$ this is $\ln I_v(|h|) - v \ln |h|$, up to a constant. The
    component of $\mu$ along $h$ has the density $\propto (1 - t^2)^{(d - 3)/2}$.
    """
    # JAX compiles for the type of a constant, which `jax.enable_x64` may change.
    nodes, log_weights = (jnp.asarray(x, h.dtype) for x in _sphere(len(h)))
    # The gradient of a norm is not finite at 0.
    squared = jnp.sum(h**2)
    length = jnp.sqrt(jnp.where(squared > 0, squared, 1.0)) * (squared > 0)
    return jax.nn.logsumexp(length * nodes + log_weights)


@functools.lru_cache
def _sphere(dim: int) -> tuple[np.ndarray, np.ndarray]:
    from scipy import special  # Slow to import.

    if dim == 1:  # The sphere is two points.
        return np.array([-1.0, 1.0]), np.log([0.5, 0.5])
    if dim == 2:
        nodes, weights = special.roots_chebyt(_SPHERE_NODES)
    else:
        nodes, weights = special.roots_gegenbauer(_SPHERE_NODES, dim / 2 - 1)
    return nodes, np.log(weights / weights.sum())


def log_scale_mean(
    squares: Float[Array, ""], count: Float[Array, ""], low: float, high: float
) -> Float[Array, ""]:
    r"""$\ln E[s^{-n} e^{-q / 2 s^2}]$ for $s$ uniform between `low` and `high`.

    **Arguments:**

    - `squares`: $q$, a sum of squares.
    - `count`: $n$, how many numbers were squared.
    """
    nodes = _scales(low, high)
    log_scale, log_weights = (jnp.asarray(x, squares.dtype) for x in nodes)
    exponent = -count * log_scale - 0.5 * squares * jnp.exp(-2 * log_scale)
    return jax.nn.logsumexp(exponent + log_weights)


@functools.lru_cache
def _scales(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    # Over the logarithm of the scale, the peak is equally wide everywhere.
    nodes, weights = np.polynomial.legendre.leggauss(_SCALE_NODES)
    width = np.log(high / low)
    log_scale = np.log(low) + 0.5 * width * (nodes + 1)
    density = 0.5 * width * weights * np.exp(log_scale) / (high - low)
    return log_scale, np.log(density)
