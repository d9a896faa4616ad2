"""Which classes appear in a sequence, and where."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt32

from ._distribution import AbstractClassSampler, edges
from ._random import below, permutation


# Pairs of a context. Who sees whom is an array of their square.
_LONGEST = 10_000


@dataclasses.dataclass(frozen=True)
class Context:
    r"""The classes of a context and its query.

    The query's class is drawn from the class distribution, and every other class from
    that distribution conditioned on not being one that the fields forbid. The order of
    the context is a uniform permutation. The default is the setting of Singh et al.
    (2024): two pairs, one of the query's class and one of another.
    """

    length: int = 2
    """Number of (exemplar, label) pairs in the context, at least 1."""
    burstiness: int = 1
    """How often the query's class is in the context, exactly. The items that belong to
    neither the query's class nor the distractor are independent draws from the other
    classes, which can repeat each other. 0 forbids nothing: each class of the context,
    and the query's, is an independent draw."""
    distractor: bool = False
    """One more class, drawn from those other than the query's, appears `burstiness`
    times too."""
    no_support: bool = False
    """The query's class is absent from the context. A supporting class, drawn from the
    others, takes the place in the context that the query's had; it is distinct from the
    distractor and from the remaining items."""
    unique_rest: bool = False
    """The items that belong to neither the query's class nor the distractor are all of
    different classes, each drawn from those not yet taken. At `burstiness=0` these are
    all of the context (not the query)."""

    def __post_init__(self):
        if not 1 <= self.length <= _LONGEST:
            wanted = "at least 1" if self.length < 1 else f"at most {_LONGEST}"
            raise ValueError(f"length must be {wanted}, got {self.length}")
        if self.burstiness < 0:
            raise ValueError(f"burstiness must be at least 0, got {self.burstiness}")
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
        """This context with probability 1, as `Mixture` lists its own."""
        return ((self, 1.0),)

    @property
    def has_two_classes(self) -> bool:
        """Whether the context has the query's class and always just one other."""
        return (
            self.burstiness >= 1
            and not self.no_support
            and len(np.unique(self.slots())) == 2
        )

    def slots(self) -> np.ndarray:
        """Which draw fills each place of the context, before it is permuted.

        Draw 0 is the query's class; then come the supporting class, the distractor, and
        the rest one by one, as far as there are such. int64 [context].
        """
        support = int(self.no_support)
        burst = np.full(self.burstiness, support)
        distractor = np.full(self.burstiness * self.distractor, support + 1)
        first = 1 + (support if self.burstiness else 0) + self.distractor
        rest = first + np.arange(self.length - self._num_burst)
        return np.concatenate([burst, distractor, rest])

    def excludes(self) -> np.ndarray:
        """Whether a draw (row) must differ from an earlier one (column).

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
    """Each sequence's context is of one kind, drawn anew."""

    contexts: tuple[Context, ...]
    """The kinds, all of the same length."""
    probabilities: tuple[float, ...]
    """Of each kind; positive, summing to 1."""

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
    """The tables of all components, padded to as many draws as the largest has."""

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
    """Raises `ValueError` if some draw could find all classes forbidden."""
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

    - `context`: What the sequence is like.
    - `sampler`: Of the classes of the split.
    - `class_bits`, `order_bits`: Independent uniform words, as many as positions.

    **Returns:**

    A tuple of

    - the classes drawn, as positions in the split: first the query's, then (for
        `Context.has_two_classes`) the other one;
    - which draw fills each position of the sequence; the query is the last.
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
