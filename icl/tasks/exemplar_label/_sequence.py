"""What an exemplar-label sequence is."""

import equinox as eqx
from jaxtyping import Array, Float, Int

from ...checks import finite


class Sequence(eqx.Module):
    """One sequence, or with leading axes a batch of them; the query is the last.

    **Attributes:**

    - `examples`: What the model sees at each position: vectors, or ids for data that
        is given as ids.
    - `labels`: The label at each position; the query's is the target.
    - `classes`: The index in the data of each position's class; -1 where unknown.
    """

    examples: Float[Array, "*batch exemplar dim"] | Int[Array, "*batch exemplar"]
    labels: Int[Array, "*batch exemplar"]
    classes: Int[Array, "*batch exemplar"]

    def check_batch(self) -> None:
        """Raises `ValueError` for examples that are not finite."""
        finite("examples", self.examples)
