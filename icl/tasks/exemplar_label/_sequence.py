"""The type of an exemplar-label sequence."""

import equinox as eqx
from jaxtyping import Array, Float, Int

from ...checks import finite


class Sequence(eqx.Module):
    """One sequence, or a batch of them with leading axes; the query comes last.

    **Attributes:**

    - `examples`: What the model sees at each position: vectors, or ids if the data has
        ids.
    - `labels`: The label at each position; the query's label is the target.
    - `classes`: The class at each position, as an index in the data; -1 if unknown.
    """

    examples: Float[Array, "*batch exemplar dim"] | Int[Array, "*batch exemplar"]
    labels: Int[Array, "*batch exemplar"]
    classes: Int[Array, "*batch exemplar"]

    def check_batch(self) -> None:
        """Raises `ValueError` if some examples are not finite."""
        finite("examples", self.examples)
