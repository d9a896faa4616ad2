"""Which classes appear in a sequence, and where."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt32

from ...checks import check_index, positive
from ._distribution import AbstractClassSampler, below, edges, permutation


@dataclasses.dataclass(frozen=True)
class Context:
    r"""The classes of a context and its query.

    The query's class is drawn from the class distribution. Every other class is drawn
    from the same distribution without the classes that the fields below forbid. The
    order of the context is a uniform permutation. The default is the setting of Singh
    et al. (2024): two pairs, one of the query's class and one of another class.
    """

    length: int = 2
    """Number of (exemplar, label) pairs in the context, at least 1."""
    burstiness: int = 1
    """How often the query's class is in the context, exactly. The items that belong to
    neither the query's class nor the distractor are independent draws from the other
    classes; they may repeat each other. 0 forbids nothing: each class of the context,
    and the query's, is an independent draw."""
    distractor: bool = False
    """Whether one more class (not the query's) also appears `burstiness` times."""
    no_support: bool = False
    """The query's class is absent from the context. Another class, the supporting
    class, takes its place there. It differs from the distractor and from the remaining
    items."""
    unique_rest: bool = False
    """The items that belong to neither the query's class nor the distractor are all of
    different classes. Each is drawn from the classes not yet taken. With `burstiness=0`
    these items are the whole context (not the query)."""

    def __post_init__(self):
        positive("length", self.length)
        check_index("burstiness", self.burstiness)
        if self.distractor and self.burstiness == 0:
            raise ValueError("a distractor needs a burstiness of at least 1, got 0")
        if self._num_burst > self.length:
            raise ValueError(
                f"burstiness {self.burstiness} "
                f"{'with a distractor ' if self.distractor else ''}"
                f"takes {self._num_burst} items, but length is {self.length}"
            )

    @property
    def _num_burst(self) -> int:
        return self.burstiness * (1 + self.distractor)

    @property
    def components(self) -> tuple[tuple["Context", float], ...]:
        """This context with probability 1, in the form of `Mixture.components`."""
        return ((self, 1.0),)

    @property
    def has_two_classes(self) -> bool:
        """Whether the context has the query's class and always exactly one other."""
        return (
            self.burstiness >= 1
            and not self.no_support
            and len(np.unique(self.slots())) == 2
        )

    def slots(self) -> np.ndarray:
        """Which draw fills each place of the context, before the permutation.

        Draw 0 is the query's class. Then come the supporting class and the distractor,
        if the context has them, and the remaining items one by one. int64 [context].
        """
        support = int(self.no_support)
        burst = np.full(self.burstiness, support)
        distractor = np.full(self.burstiness * self.distractor, support + 1)
        first = 1 + (support if self.burstiness else 0) + self.distractor
        rest = first + np.arange(self.length - self._num_burst)
        return np.concatenate([burst, distractor, rest])

    def excludes(self) -> np.ndarray:
        """Whether a draw (row) must differ from an earlier draw (column).

        bool [draw, draw], below the diagonal.
        """
        slots = self.slots()
        rest = np.unique(slots[self._num_burst :])
        named = rest.min(initial=slots.max() + 1)  # support, distractor: before these
        table = np.zeros((slots.max() + 1,) * 2, bool)
        if self.burstiness or self.no_support:
            table[:, :named] = True
        if self.unique_rest:
            table[named:, named:] = True
        return np.tril(table, -1)


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Each sequence's context is of one kind; each sequence draws the kind anew."""

    contexts: tuple[Context, ...]
    """The kinds, all of the same length."""
    probabilities: tuple[float, ...]
    """The probability of each kind; positive, summing to 1."""

    def __post_init__(self):
        if not self.contexts or len(self.contexts) != len(self.probabilities):
            raise ValueError(
                f"contexts and probabilities must be equally many, at least 1, got "
                f"{len(self.contexts)} and {len(self.probabilities)}"
            )
        if len({context.length for context in self.contexts}) > 1:
            lengths = [context.length for context in self.contexts]
            raise ValueError(f"contexts must have the same length, got {lengths}")
        total = math.fsum(self.probabilities)
        if min(self.probabilities) <= 0 or not math.isclose(total, 1, abs_tol=1e-6):
            raise ValueError(
                f"probabilities must be positive and sum to 1, got "
                f"{self.probabilities} with sum {total}"
            )

    @property
    def length(self) -> int:
        """Number of pairs in the context."""
        return self.contexts[0].length

    @property
    def components(self) -> tuple[tuple[Context, float], ...]:
        """The kinds with their probabilities."""
        return tuple(zip(self.contexts, self.probabilities, strict=True))


@dataclasses.dataclass(frozen=True, eq=False)
class _Plan:
    """The tables of all components, padded to the largest number of draws."""

    slots: np.ndarray  # int32 [component, context]
    excludes: np.ndarray  # bool [component, draw, draw]
    edges: np.ndarray  # uint32 [component + 1]
    rounds: tuple[tuple[int, int], ...]  # ranges of draws that are made together


@functools.lru_cache(maxsize=256)
def _plan(context: Context | Mixture) -> _Plan:
    kinds, probabilities = zip(*context.components, strict=True)
    slots = np.stack([kind.slots() for kind in kinds]).astype(np.int32)
    num_draws = max(slots.max() + 1, 1)
    excludes = np.zeros((len(kinds), num_draws, num_draws), bool)
    for table, kind in zip(excludes, kinds, strict=True):
        own = kind.excludes()
        table[: len(own), : len(own)] = own
    rounds, start = [], 0
    for draw in range(1, num_draws):
        if excludes[:, draw, start:draw].any():
            rounds.append((start, draw))
            start = draw
    rounds.append((start, int(num_draws)))
    share = np.asarray(probabilities, np.float64)
    return _Plan(slots, excludes, edges(share / share.sum()), tuple(rounds))


def check_enough_classes(context: Context | Mixture, num_classes: int) -> None:
    """Raises `ValueError` if all classes could be forbidden for some draw."""
    needed = 1 + int(_plan(context).excludes.sum(axis=-1).max())
    if num_classes < needed:
        raise ValueError(
            f"{context} needs at least {needed} classes, but the split has "
            f"{num_classes}"
        )


def sample_slots(
    context: Context | Mixture,
    sampler: AbstractClassSampler,
    class_bits: UInt32[Array, " exemplar"],
    order_bits: UInt32[Array, " exemplar"],
) -> tuple[Int32[Array, " draw"], Int32[Array, " exemplar"]]:
    """Draws the classes of one sequence.

    **Arguments:**

    - `context`: The kind of context, or a mixture of kinds.
    - `sampler`: Draws the classes of the split.
    - `class_bits`, `order_bits`: Independent uniform words, one per position.

    **Returns:**

    A tuple of

    - the drawn classes, as positions in the split: first the query's, then (for
        `Context.has_two_classes`) the other class;
    - the draw that fills each position of the sequence; the query is the last.
    """
    plan = _plan(context)
    kind = _choose(plan.edges, order_bits[-1])
    draws = _draw(plan, kind, sampler, class_bits[: plan.excludes.shape[1]])
    slots = jnp.asarray(plan.slots)[kind][permutation(order_bits[:-1])]
    return draws, jnp.concatenate([slots, jnp.zeros(1, slots.dtype)])


def _choose(edges: np.ndarray, bits: UInt32[Array, ""]) -> Int32[Array, ""]:
    place = below(bits, int(edges[-1]))
    return jnp.sum(edges[1:-1] <= place, dtype=jnp.int32)


def _draw(
    plan: _Plan,
    kind: Int32[Array, ""],
    sampler: AbstractClassSampler,
    bits: UInt32[Array, " draw"],
) -> Int32[Array, " draw"]:
    excludes = jnp.asarray(plan.excludes)[kind]
    draws = jnp.zeros(0, jnp.int32)
    for start, stop in plan.rounds:
        new = jax.vmap(sampler.draw, in_axes=(0, None, 0))(
            bits[start:stop], draws, excludes[start:stop, :start]
        )
        draws = jnp.concatenate([draws, new])
    return draws
