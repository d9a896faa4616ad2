"""Integrals over the hidden parameters, as sums over fixed nodes."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


# Enough for the spread of the integrands of 500 points; tests compare with SciPy.
_SPHERE_NODES, _SCALE_NODES = 160, 600
# With n nodes, e^(a t) is integrated to about e^(-2 n^2 / a), relative to its largest.
_PRECISION = 40


def log_sphere_ratio(
    middle: Float[Array, " dim"], half: Float[Array, " dim"], *, longest: float
) -> Float[Array, ""]:
    r"""$L(m + u) - L(m - u)$, with $L(h) = \ln E[e^{h \cdot \mu}]$.

    Here $\mu$ is uniform on the unit sphere. With $v = d/2 - 1$, $L(h)$ is $\ln
    I_v(|h|) - v \ln |h|$, up to a constant. The component of $\mu$ along $h$ has the
    density $\propto (1 - t^2)^{(d - 3)/2}$.

    **Arguments:** `middle`: $m$. `half`: $u$. `longest`: How long $h$ may be; the
    longer, the more nodes.
    """
    count = max(_SPHERE_NODES, math.ceil(math.sqrt(_PRECISION * longest / 2)))
    # JAX compiles for the type of a constant, which `jax.enable_x64` may change.
    sphere = _sphere(len(middle), count)
    nodes, log_weights = (jnp.asarray(x, middle.dtype) for x in sphere)
    plus, minus = _length(middle + half), _length(middle - half)
    # L(h) is |h| and a small rest. In float32, the difference of two long lengths is
    # not exact; that of their squares is.
    both = plus + minus
    longer = 4 * jnp.vdot(middle, half) / jnp.where(both > 0, both, 1.0)
    rests = (
        jax.nn.logsumexp(length * (nodes - 1) + log_weights) for length in (plus, minus)
    )
    return longer + next(rests) - next(rests)


def _length(h: Float[Array, " dim"]) -> Float[Array, ""]:
    # The gradient of a norm is not finite at 0.
    squared = jnp.sum(h**2)
    return jnp.sqrt(jnp.where(squared > 0, squared, 1.0)) * (squared > 0)


@functools.lru_cache
def _sphere(dim: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    from scipy import special  # Slow to import.

    if dim == 1:  # The sphere is two points.
        return np.array([-1.0, 1.0]), np.log([0.5, 0.5])
    if dim == 2:
        nodes, weights = special.roots_chebyt(count)
    else:
        nodes, weights = special.roots_gegenbauer(count, dim / 2 - 1)
    return nodes, np.log(weights / weights.sum())


def log_scale_gain(
    seen: tuple[Float[Array, ""], Float[Array, ""]],
    new: tuple[Float[Array, ""], Float[Array, ""]],
    low: float,
    high: float,
) -> Float[Array, ""]:
    r"""$G(q + r, n + m) - G(q, n)$, with $G(q, n) = \ln E[s^{-n} e^{-q / 2 s^2}]$.

    Here $s$ is uniform between `low` and `high`.

    **Arguments:**

    - `seen`: $q$, a sum of squares, and $n$, how many numbers were squared.
    - `new`: $r$ and $m$, the same of further numbers.
    """
    squares, count = seen
    nodes = _scales(low, high)
    log_scale, log_weights = (jnp.asarray(x, squares.dtype) for x in nodes)
    # Exponents are of n, too much for float32. Near the likeliest scale, those that are
    # relative to it are small.
    usual = 0.5 * jnp.log(jnp.where(count > 0, squares / jnp.maximum(count, 1), 1.0))
    usual = jax.lax.stop_gradient(jnp.clip(usual, np.log(low), np.log(high)))
    apart = log_scale - usual
    exponent = -count * apart - 0.5 * squares * jnp.exp(-2 * usual) * jnp.expm1(
        -2 * apart
    )
    squares, count = new
    further = -count * log_scale - 0.5 * squares * jnp.exp(-2 * log_scale)
    before = jax.nn.logsumexp(exponent + log_weights)
    return jax.nn.logsumexp(exponent + further + log_weights) - before


@functools.lru_cache
def _scales(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    # Over the logarithm of the scale, the peak is equally wide everywhere.
    nodes, weights = np.polynomial.legendre.leggauss(_SCALE_NODES)
    width = np.log(high / low)
    log_scale = np.log(low) + 0.5 * width * (nodes + 1)
    density = 0.5 * width * weights * np.exp(log_scale) / (high - low)
    return log_scale, np.log(density)
