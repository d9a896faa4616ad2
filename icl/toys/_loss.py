"""Losses of toys: functions of the learned vectors and the true ones."""

import abc
import math
from collections.abc import Callable, Mapping, Sequence

import equinox as eqx
from jaxtyping import Array, Float

from ._form import AbstractForm, Tensor


Vectors = Mapping[str, Float[Array, " _"]]
"""Vectors by name, of any size."""

ToyMeasure = Callable[[Vectors, Vectors], Array]
"""A function of the learned and the true vectors; it gives a number or an array."""


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
        _check_names(self.names)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(self.names)


class RankOne(_OfFactors):
    r"""How far a learned rank-1 tensor is from the true one.

    $$L = \tfrac{1}{2}\bigl\langle(t_a \otimes t_b \otimes \dots -
    p_a \otimes p_b \otimes \dots)^2\bigr\rangle,$$

    the mean over entries. With three vectors this is the toy of Singh et al. 2024
    (arXiv 2404.07129, section 5 and figure 5a).
    """

    def __call__(self, learned: Vectors, true: Vectors) -> Float[Array, ""]:
        return self.form.error(*(_factors(v, self.names) for v in (learned, true)))


class Size(_OfFactors):
    r"""The size of a learned rank-1 tensor, $\frac{1}{2}\langle(p_a \otimes p_d
    \otimes \dots)^2\rangle$: the cost of keeping the vectors."""

    def __call__(self, learned: Vectors, true: Vectors) -> Float[Array, ""]:
        return self.form.size(_factors(learned, self.names))


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


def _factors(vectors: Vectors, names: Sequence[str]) -> list[Float[Array, " _"]]:
    return [vectors[name] for name in names]


def _check_names(names: Sequence[str]) -> None:
    if not names or len(set(names)) < len(names):
        raise ValueError(f"names must be of different vectors, got {names}")
