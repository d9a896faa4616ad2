"""What an exemplar-label sequence is."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int


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
        """Raises `ValueError` for examples that are not finite; for what was read."""
        check_finite("examples", self.examples)


def check_finite(what: str, values: Any) -> None:
    """Raises `ValueError` unless all numbers of an array are finite."""
    finite = np.isfinite(np.asarray(values))
    if not finite.all():
        wrong = f"{(~finite).sum()} of {finite.size}"
        raise ValueError(f"{what} must be finite, got {wrong} that are not")
