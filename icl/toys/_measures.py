"""Measures of the vectors while they are learned.

A measure is any function of the learned and the true vectors. Those of the papers are
here, as values.
"""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._loss import AbstractLoss, Vectors


class Misalignment(eqx.Module):
    r"""How far a vector's direction is from the true direction or its opposite.

    $1 - \cos^2(p, t)$, which is 0 once the direction is learned (the first progress
    measure of figure A9 of arXiv 2404.07129).
    """

    name: str = eqx.field(static=True)
    """The vector."""

    def __call__(self, learned: Vectors, true: Vectors) -> Float[Array, ""]:
        p, t = learned[self.name], true[self.name]
        cosine = jnp.dot(t, p) / (jnp.linalg.norm(t) * jnp.linalg.norm(p))
        return 1.0 - cosine**2


class LossAtTruth(eqx.Module):
    r"""The loss as if some vectors were already learned, up to their signs.

    $\min_{s \in \{-1, 1\}^k} L(p \text{ with } p_i = s_i t_i)$ over the $k$ named
    vectors (the second progress measure of figure A9 of arXiv 2404.07129). Two wrong
    signs give a right product, so chance decides which signs are learned.
    """

    loss: AbstractLoss
    names: tuple[str, ...] = eqx.field(static=True, converter=tuple)
    """The vectors that are set to the true ones."""

    def __call__(self, learned: Vectors, true: Vectors) -> Float[Array, ""]:
        losses = []
        for signs in itertools.product((1.0, -1.0), repeat=len(self.names)):
            pairs = zip(self.names, signs, strict=True)
            known = {name: sign * true[name] for name, sign in pairs}
            losses.append(self.loss({**learned, **known}, true))
        return jnp.min(jnp.stack(losses))


class Norm(eqx.Module):
    """The length of a learned vector."""

    name: str = eqx.field(static=True)
    """The vector."""

    def __call__(self, learned: Vectors, true: Vectors) -> Float[Array, ""]:
        return jnp.linalg.norm(learned[self.name])


class Distance(eqx.Module):
    """The distance of a learned vector from the true one."""

    name: str = eqx.field(static=True)
    """The vector."""

    def __call__(self, learned: Vectors, true: Vectors) -> Float[Array, ""]:
        return jnp.linalg.norm(learned[self.name] - true[self.name])


class GradientNorm(eqx.Module):
    """The length of a loss's gradient with respect to one vector."""

    loss: AbstractLoss
    name: str = eqx.field(static=True)
    """The vector."""

    def __call__(self, learned: Vectors, true: Vectors) -> Float[Array, ""]:
        return jnp.linalg.norm(jax.grad(self.loss)(learned, true)[self.name])
