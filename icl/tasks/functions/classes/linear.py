"""Linear functions, and others that have one weight for each component."""

import dataclasses
import math
from typing import ClassVar

import jax
import jax.numpy as jnp

from .._function import (
    check_numbers,
    FunctionClass,
    LikeLinear,
    Parameters,
    Scoring,
    SignedLabels,
    Size,
)


@dataclasses.dataclass(frozen=True)
class LinearFunction(LikeLinear):
    r"""$f(x) = s\, w \cdot x$ with $w \sim N(0, I)$ (Garg et al. 2022, section 3)."""

    scale: float = 1.0
    """$s$, above 0."""

    def draw(self, points, dim, *, active, key) -> Parameters:
        return {"w": jax.random.normal(key, (dim,))}

    def values(self, parameters, xs):
        return self.scale * (xs @ parameters["w"])


@dataclasses.dataclass(frozen=True)
class UniformLinear(LikeLinear):
    r"""$f(x) = s\, w \cdot x$ with each weight uniform in $\pm\sqrt 3$.

    The weights have the mean and variance of normal ones (limits_of_icl).
    """

    scale: float = 1.0
    """$s$, above 0."""

    def draw(self, points, dim, *, active, key) -> Parameters:
        bound = math.sqrt(3)
        return {"w": jax.random.uniform(key, (dim,), minval=-bound, maxval=bound)}

    def values(self, parameters, xs):
        return self.scale * (xs @ parameters["w"])


@dataclasses.dataclass(frozen=True)
class AffineFunction(LikeLinear):
    r"""$f(x) = s\, w \cdot x + b$ with $w \sim N(0, I)$ and $b \sim N(0, \sigma_b^2)$.

    The offset $b$ is one number for all points of a prompt (limits_of_icl).
    """

    bias_std: float = 1.0
    r"""$\sigma_b$, above 0."""
    scale: float = 1.0
    """$s$, above 0."""

    def draw(self, points, dim, *, active, key) -> Parameters:
        weights_key, bias_key = jax.random.split(key)
        return {
            "w": jax.random.normal(weights_key, (dim,)),
            "b": self.bias_std * jax.random.normal(bias_key, ()),
        }

    def values(self, parameters, xs):
        return self.scale * (xs @ parameters["w"]) + parameters["b"]


@dataclasses.dataclass(frozen=True)
class SparseLinear(FunctionClass):
    r"""$f(x) = s\, w \cdot x$ with normal weights, of which only a few are not zero.

    Which ones is random among the first components that are in use, as in the public
    code (Garg et al. 2022, section 5).
    """

    sparsity: int = 3
    """How many weights are not zero; all, if fewer components are in use."""
    scale: float = 1.0
    """$s$, above 0."""

    def __post_init__(self):
        check_numbers(self)

    def check(self, dim: int) -> None:
        if self.sparsity > dim:
            got = f"got {self.sparsity}"
            raise ValueError(f"sparsity must be at most dim={dim}, {got}")

    def draw(self, points, dim, *, active, key) -> Parameters:
        weights_key, order_key = jax.random.split(key)
        weights = jax.random.normal(weights_key, (dim,))
        # Components that are not in use come last in the random order.
        order = jax.random.uniform(order_key, (dim,)) + (jnp.arange(dim) >= active)
        rank = jnp.argsort(jnp.argsort(order))
        kept = rank < jnp.minimum(self.sparsity, active)
        return {"w": jnp.where(kept, weights, 0)}

    def values(self, parameters, xs):
        return self.scale * (xs @ parameters["w"])

    def mean_square(self, dim, inputs, *, active) -> Size:
        """As if there were only the components whose weights are not zero."""
        smaller = min if isinstance(active, int) else jnp.minimum
        kept = smaller(self.sparsity, active)
        return self.scale**2 * kept * inputs.second


@dataclasses.dataclass(frozen=True)
class QuadraticFunction(FunctionClass):
    r"""$f(x) = \frac{s}{\sqrt 3} \sum_j w_j x_j^2$ with $w \sim N(0, I)$.

    The root of 3 makes the mean square of its values that of a linear function (Garg et
    al. 2022, public code).
    """

    scale: float = 1.0
    """$s$, above 0."""

    def __post_init__(self):
        check_numbers(self)

    def draw(self, points, dim, *, active, key) -> Parameters:
        return {"w": jax.random.normal(key, (dim,))}

    def values(self, parameters, xs):
        return self.scale * (xs**2 @ parameters["w"]) / math.sqrt(3)

    def mean_square(self, dim, inputs, *, active) -> Size:
        r"""$s^2 d / 3$ times the mean fourth power of a component."""
        return self.scale**2 * active * inputs.fourth / 3


@dataclasses.dataclass(frozen=True)
class LinearClassification(FunctionClass):
    r"""$f(x) = \operatorname{sign}(w \cdot x)$ with $w \sim N(0, I)$; 0 on the plane.

    Predictions are logits of the label 1 (Garg et al. 2022, public code).
    """

    scoring: ClassVar[Scoring] = SignedLabels()

    def draw(self, points, dim, *, active, key) -> Parameters:
        return {"w": jax.random.normal(key, (dim,))}

    def values(self, parameters, xs):
        return jnp.sign(xs @ parameters["w"])

    def mean_square(self, dim, inputs, *, active) -> Size:
        """1: labels are not divided by anything."""
        return 1.0
