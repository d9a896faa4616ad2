"""Losses of toys, and two ways to compute squares of rank-1 tensors in them."""

import abc
import math
import string
from collections.abc import Callable, Mapping, Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


Vectors = Mapping[str, Float[Array, " _"]]
"""Vectors by name, of any size."""

ToyMeasure = Callable[[Vectors, Vectors], Array]
"""A function of the learned and the true vectors; it gives a number or an array."""


Factors = Sequence[Float[Array, " _"]]


class AbstractForm(eqx.Module):
    """A way to compute squares of tensors; all forms agree up to rounding."""

    @abc.abstractmethod
    def error(self, learned: Factors, true: Factors) -> Float[Array, ""]:
        r"""$\frac{1}{2}\langle(\bigotimes_i t_i - \bigotimes_i p_i)^2\rangle$, the
        mean over the tensors' entries."""

    @abc.abstractmethod
    def size(self, learned: Factors) -> Float[Array, ""]:
        r"""$\frac{1}{2}\langle(\bigotimes_i p_i)^2\rangle$."""


class Tensor(AbstractForm):
    """Computes the tensors, as the papers' code does.

    Near a saddle, a toy amplifies rounding. So only this form gives exactly the papers'
    numbers of steps.
    """

    def error(self, learned: Factors, true: Factors) -> Float[Array, ""]:
        return 0.5 * jnp.mean((_tensor(true) - _tensor(learned)) ** 2)

    def size(self, learned: Factors) -> Float[Array, ""]:
        return 0.5 * jnp.mean(_tensor(learned) ** 2)


class InnerProducts(AbstractForm):
    r"""Computes only inner products, which is many times faster.

    The error is $\frac{1}{2N}(\prod_i|t_i|^2 - 2\prod_i\langle t_i, p_i\rangle +
    \prod_i|p_i|^2)$, where $N$ is the number of the tensor's entries. Near the end the
    terms cancel, down to about $10^{-7}$ of the first term in float32.
    """

    def error(self, learned: Factors, true: Factors) -> Float[Array, ""]:
        pairs = list(zip(true, learned, strict=True))
        crossed = math.prod(jnp.dot(t, p) for t, p in pairs)
        total = _square(true) - 2.0 * crossed + _square(learned)
        return 0.5 * total / _entries(learned)

    def size(self, learned: Factors) -> Float[Array, ""]:
        return 0.5 * _square(learned) / _entries(learned)


def _tensor(factors: Factors) -> Float[Array, "..."]:
    letters = string.ascii_lowercase[: len(factors)]
    return jnp.einsum(f"{','.join(letters)}->{letters}", *factors)


def _square(factors: Factors) -> Float[Array, ""]:
    """The sum of the squares of the tensor's entries."""
    return jnp.asarray(math.prod(jnp.dot(v, v) for v in factors))


def _entries(factors: Factors) -> int:
    return math.prod(v.shape[0] for v in factors)


class AbstractLoss(eqx.Module):
    """A loss. It can also serve as a measure, and so can the losses in it."""

    @property
    @abc.abstractmethod
    def reads(self) -> frozenset[str]:
        """The names of the vectors that it depends on."""

    @abc.abstractmethod
    def __call__(self, learned: Vectors, true: Vectors) -> Float[Array, ""]:
        """The loss of the learned vectors."""


class _OfFactors(AbstractLoss):
    """A loss of the product of some vectors."""

    names: tuple[str, ...] = eqx.field(static=True, converter=tuple)
    """The factors; `"abc"` stands for `("a", "b", "c")`."""
    form: AbstractForm = Tensor()

    def __check_init__(self):
        if not self.names or len(set(self.names)) < len(self.names):
            raise ValueError(f"names must be of different vectors, got {self.names}")

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(self.names)

    def factors(self, vectors: Vectors) -> Factors:
        """The vectors of the product."""
        return [vectors[name] for name in self.names]


class RankOne(_OfFactors):
    r"""How far a learned rank-1 tensor is from the true one.

    $$L = \tfrac{1}{2}\bigl\langle(t_a \otimes t_b \otimes \dots -
    p_a \otimes p_b \otimes \dots)^2\bigr\rangle,$$

    the mean over entries. With three vectors this is the toy of Singh et al. 2024
    (arXiv 2404.07129, section 5 and figure 5a).
    """

    def __call__(self, learned: Vectors, true: Vectors) -> Float[Array, ""]:
        return self.form.error(self.factors(learned), self.factors(true))


class Size(_OfFactors):
    r"""The size of a learned rank-1 tensor, $\frac{1}{2}\langle(p_a \otimes p_d
    \otimes \dots)^2\rangle$: the cost of keeping the vectors."""

    def __call__(self, learned: Vectors, true: Vectors) -> Float[Array, ""]:
        return self.form.size(self.factors(learned))


class Coopetition(AbstractLoss):
    r"""Several mechanisms that can each do the task, at a cost for having them all.

    $$L = \prod_k (L_k + \mu_k) + \alpha\,C$$

    (Singh et al. 2025, arXiv 2503.05631, section 6 and figure 5, with two mechanisms
    that share factors.) A mechanism with $\mu_k > 0$ cannot do all of the task.
    """

    mechanisms: tuple[AbstractLoss, ...] = eqx.field(converter=tuple)
    """The losses $L_k$; a vector named in several losses is shared."""
    offsets: tuple[float | Float[Array, ""], ...] = eqx.field(converter=tuple)
    r"""The smallest value of each factor, $\mu_k$, reached at $L_k = 0$."""
    cost: AbstractLoss
    """The cost $C$ of having all mechanisms at once."""
    weight: float | Float[Array, ""]
    r"""The weight $\alpha$ of the cost."""

    def __check_init__(self):
        if len(self.mechanisms) != len(self.offsets):
            raise ValueError(
                f"offsets must have one number for each of {len(self.mechanisms)} "
                f"mechanisms, got {len(self.offsets)}"
            )

    @property
    def reads(self) -> frozenset[str]:
        return self.cost.reads.union(*(each.reads for each in self.mechanisms))

    def __call__(self, learned: Vectors, true: Vectors) -> Float[Array, ""]:
        pairs = zip(self.mechanisms, self.offsets, strict=True)
        either = math.prod(loss(learned, true) + offset for loss, offset in pairs)
        return either + self.weight * self.cost(learned, true)
