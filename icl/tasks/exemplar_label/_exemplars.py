"""Which exemplar of its class each position of a sequence shows."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Int32, UInt32

from ._distribution import below


@dataclasses.dataclass(frozen=True)
class Free:
    """Each position's exemplar is an independent uniform draw from the split."""

    def sample(
        self,
        draws: Int32[Array, " draw"],
        slots: Int32[Array, " exemplar"],
        num_exemplars: int,
        bits: UInt32[Array, " exemplar"],
    ) -> Int32[Array, " exemplar"]:
        """Each position's exemplar, as a place in the split, in [0, num_exemplars).

        **Arguments:**

        - `draws`, `slots`: From `sample_slots`.
        - `num_exemplars`: The number of exemplars in the split.
        - `bits`: Independent uniform words.
        """
        return below(bits, num_exemplars).astype(jnp.int32)


@dataclasses.dataclass(frozen=True)
class Matched:
    """All items of the query's class show one exemplar, and so do all distractors.

    The query's class, the distractor and each other position have independent uniform
    draws from the split. Under `no_support`, the items of the supporting class also
    show one exemplar.
    """

    def sample(self, draws, slots, num_exemplars, bits):
        chosen = below(bits[: draws.shape[0]], num_exemplars).astype(jnp.int32)
        # At burstiness 0, another draw may by chance be of the query's class.
        return jnp.where(draws == draws[0], chosen[0], chosen)[slots]


ExemplarChoice = Free | Matched
