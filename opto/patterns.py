"""Ideal attention patterns."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from ._derived import Given
from ._edit import number
from ._literal import literal, Written
from ._tokens import check_tokens, not_all, sites_of, tokens_of
from ._where import is_concrete


class Kind(Written, eqx.Module):
    """An ideal attention pattern: which rows it sets, and to what."""

    @abc.abstractmethod
    def needs(self) -> tuple[str, ...]:
        """The sites that say what the pattern has to know of the tokens."""

    @abc.abstractmethod
    def pattern(
        self, size: int, given: Given
    ) -> tuple[Float[Array, "seq kv_seq"], Bool[Array, " seq"]]:
        """The pattern among `size` tokens, and which of its rows to set."""

    @abc.abstractmethod
    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments, for the text form."""

    def text(self, most: int | None = None) -> str:
        parts = [f"{name}={literal(x, most)}" for name, x in self.arguments().items()]
        return f"{type(self).__name__}({', '.join(parts)})"


class PreviousToken(Kind):
    """Each token attends to the one before it, the first to itself."""

    weight: Float[Array, ""]
    queries: str = eqx.field(static=True)

    def __init__(self, weight: ArrayLike = 1.0, *, queries: str = "all"):
        """**Arguments:**

        - `weight`: The attention to the token before, in [0, 1]; the rest goes to the
            token itself.
        - `queries`: The tokens that attend this way: `"all"`, or names that
            `opto.name_tokens` gave.
        """
        self.weight = fraction("weight", weight)
        self.queries = check_tokens("queries", queries)

    def needs(self) -> tuple[str, ...]:
        return sites_of(self.queries)

    def pattern(self, size, given):
        before = self.weight * jnp.eye(size, k=-1) + (1 - self.weight) * jnp.eye(size)
        return before.at[0, 0].set(1), tokens_of(self.queries, size, given.base)

    def arguments(self) -> dict[str, Any]:
        return {"weight": self.weight, **not_all("queries", self.queries)}


class Uniform(Kind):
    """Each token attends equally to itself and all before it."""

    queries: str = eqx.field(static=True)

    def __init__(self, *, queries: str = "all"):
        """**Arguments:** `queries`: As for `PreviousToken`."""
        self.queries = check_tokens("queries", queries)

    def needs(self) -> tuple[str, ...]:
        return sites_of(self.queries)

    def pattern(self, size, given):
        uniform = np.tri(size) / np.arange(1, size + 1)[:, None]
        return jnp.asarray(uniform), tokens_of(self.queries, size, given.base)

    def arguments(self) -> dict[str, Any]:
        return not_all("queries", self.queries)


def fraction(argument: str, value: ArrayLike) -> Float[Array, ""]:
    """A number; raises `ValueError` unless it is in [0, 1]."""
    share = number(argument, value)
    if is_concrete(share) and not (share.ndim == 0 and 0 <= float(share) <= 1):
        raise ValueError(f"{argument} is a number in [0, 1], got {value}")
    return share
