"""Selections along an axis that differ between examples."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from ._literal import Written
from ._tokens import check_tokens, sites_of, tokens_of
from .hints import brief


class PerExample(Written, eqx.Module):
    """Indices of each example of a batch: `pos=opto.PerExample([1, 4, 2, 6])`.

    Example 0 has position 1 selected, example 1 position 4, …. A list alone,
    `pos=[1, 4, 2, 6]`, selects all four positions in every example.
    """

    index: Int[Array, "*batch_and_choices"]

    def __init__(self, index: Sequence[Any] | np.ndarray | Array):
        """**Arguments:** `index`: Whole numbers with the batch's axes, `[example]`, or
        `[example, choice]` for several of each; negative ones count from the end.

        **Raises:** `ValueError` for anything else.
        """
        array: Any = index if eqx.is_array(index) else np.asarray(index)
        if array.size == 0 or not jnp.issubdtype(array.dtype, jnp.integer):
            wanted = "PerExample takes whole-number indices, one for each example"
            raise ValueError(f"{wanted}; got {brief(index)}")
        self.index = jnp.asarray(array, jnp.int32)

    def choices(self) -> Int[Array, "choice 1"]:
        """The indices of one example."""
        if isinstance(self.index, jax.ShapeDtypeStruct):  # Only shapes are asked for.
            return jnp.zeros((math.prod(self.index.shape), 1), jnp.int32)
        return self.index.reshape(-1, 1)

    def text(self, most: int | None = None) -> str:
        return f"PerExample({np.asarray(self.index).tolist()})"


class NamedTokens(eqx.Module):
    """The tokens of one name, `pos="label"`: found once the inputs are known."""

    names: str = eqx.field(static=True)
    chosen: Any = None  # Bool[Array, " seq"] | None

    @staticmethod
    def of(names: str) -> "NamedTokens":
        """**Raises:** `ValueError` for names that no one gave to tokens."""
        return NamedTokens(check_tokens("pos", names))

    def sites(self) -> tuple[str, ...]:
        """The sites that say which tokens have the names."""
        return sites_of(self.names)

    def found(self, values: Mapping[str, Array]) -> "NamedTokens":
        """With the tokens of an example, given the values of `sites`."""
        size = len(values[self.sites()[0]]) if self.sites() else 0
        return NamedTokens(self.names, tokens_of(self.names, size, values))

    def along(self, size: int) -> Bool[Array, " seq"]:
        """Which tokens are chosen, on an axis of this length."""
        if self.chosen is None or len(self.chosen) != size:
            wanted = f"pos={self.names!r} needs a site with an entry for each token"
            raise ValueError(f"{wanted}; the axis has {size}")
        return self.chosen
