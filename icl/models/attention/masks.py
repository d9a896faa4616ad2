"""Which tokens each token sees: a mask gives the table of queries and keys."""

import dataclasses

import numpy as np
from jaxtyping import Bool

from ...checks import check_index, positive
from ...protocols import Mask


@dataclasses.dataclass(frozen=True)
class Causal(Mask):
    """A token sees itself and earlier tokens."""

    def keys(self, seq: int) -> int:
        return seq

    def seen(self, seq: int, start: int) -> Bool[np.ndarray, "seq kv_seq"]:
        return np.arange(start, seq)[:, None] >= np.arange(seq)


@dataclasses.dataclass(frozen=True)
class Everything(Mask):
    """Every token sees every token."""

    def keys(self, seq: int) -> int:
        return seq

    def seen(self, seq: int, start: int) -> Bool[np.ndarray, "seq kv_seq"]:
        return np.ones((seq - start, seq), bool)


@dataclasses.dataclass(frozen=True)
class ContextOnly(Mask):
    """Every token sees the whole context: all tokens except the queries at the end.

    Queries do not see themselves or each other, so patterns have fewer keys than rows.
    """

    num_queries: int = 1
    """Number of tokens at the end that are not context."""

    def __post_init__(self):
        positive("num_queries", self.num_queries)

    def keys(self, seq: int) -> int:
        if seq <= self.num_queries:
            raise ValueError(f"{self} leaves no keys of {seq} tokens")
        return seq - self.num_queries

    def seen(self, seq: int, start: int) -> Bool[np.ndarray, "seq kv_seq"]:
        return np.ones((seq - start, self.keys(seq)), bool)


@dataclasses.dataclass(frozen=True)
class Window(Mask):
    """A token sees itself, the tokens just before it, and global tokens before it.

    A global token is seen by all later tokens, and sees all earlier ones (Beltagy et
    al. 2020, "Longformer", made causal).
    """

    size: int
    """How many tokens a token sees: itself and `size - 1` before it."""
    global_tokens: tuple[int, ...] = ()
    """Positions of global tokens; those beyond a sequence do nothing."""

    def __post_init__(self):
        positive("size", self.size)
        for position in self.global_tokens:
            check_index("each of global_tokens", position)

    def keys(self, seq: int) -> int:
        return seq

    def seen(self, seq: int, start: int) -> Bool[np.ndarray, "seq kv_seq"]:
        query, key = np.arange(start, seq)[:, None], np.arange(seq)
        near = query - key < self.size
        shared = np.isin(query, self.global_tokens) | np.isin(key, self.global_tokens)
        return (query >= key) & (near | shared)


@dataclasses.dataclass(frozen=True)
class QueriesSeeContext(Mask):
    """Queries at the end see the whole context and themselves, but no other query.

    The context sees only the context.
    """

    num_queries: int = 1
    """Number of tokens at the end that are queries."""
    context: Mask = Everything()
    """Which tokens of the context each of them sees."""

    def __post_init__(self):
        positive("num_queries", self.num_queries)

    def keys(self, seq: int) -> int:
        return seq

    def seen(self, seq: int, start: int) -> Bool[np.ndarray, "seq kv_seq"]:
        pairs = seq - self.num_queries
        if pairs < 1:
            raise ValueError(f"{self} leaves no context of {seq} tokens")
        seen = np.eye(seq, dtype=bool)
        seen[:pairs, :pairs] = False
        seen[:pairs, : self.context.keys(pairs)] = self.context.seen(pairs, 0)
        seen[pairs:, :pairs] = True
        return seen[start:]
