"""What may be done to a context before a model sees it."""

import dataclasses

import jax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ...checks import check_probability


Pairs = tuple[Float[Array, "pair dim"], Int[Array, " pair"]]


@dataclasses.dataclass(frozen=True)
class Unchanged:
    """The context as it was drawn."""

    def apply(self, x, y, *, key: PRNGKeyArray) -> Pairs:
        return x, y


@dataclasses.dataclass(frozen=True)
class NoisyLabels:
    """Each label of the context is wrong with a probability."""

    probability: float
    """In [0, 1]; with 1/2, labels tell nothing."""

    def __post_init__(self):
        check_probability("probability", self.probability)

    def apply(self, x, y, *, key: PRNGKeyArray) -> Pairs:
        wrong = jax.random.bernoulli(key, self.probability, y.shape)
        return x, jax.numpy.where(wrong, 1 - y, y)


@dataclasses.dataclass(frozen=True)
class ShuffledLabels:
    """The labels of the context in a random order, a new one in each example."""

    def apply(self, x, y, *, key: PRNGKeyArray) -> Pairs:
        return x, jax.random.permutation(key, y)


@dataclasses.dataclass(frozen=True)
class ShuffledPairs:
    """The pairs of the context in a random order, a new one in each example.

    Pairs are drawn independently, so this does not change the distribution: a control.
    """

    def apply(self, x, y, *, key: PRNGKeyArray) -> Pairs:
        order = jax.random.permutation(key, len(y))
        return x[order], y[order]


ContextChange = Unchanged | NoisyLabels | ShuffledLabels | ShuffledPairs
