"""Sequences of token ids for language models: random repeats, a small language, labels.

A model's outputs are logits `[seq, label]`, and each token but the first is predicted
from those before it. Ids of -1 are padding and are not predicted.
"""

import abc
import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from opto import identity, Tap

from ..checks import check_index, check_probability, positive
from ..protocols import Input, Interface, TaskConfig
from ..roles import PADDING


class Tokens(eqx.Module):
    """The ids of one sequence, or of a batch with leading axes."""

    ids: Int[Array, "*batch seq"]


class TokenTask(TaskConfig):
    """The base of these tasks; a subclass draws the ids."""

    vocabulary: int

    loss_unit: ClassVar[str] = "nats"

    if TYPE_CHECKING:  # A field or a property.

        @property
        def length(self) -> int:
            """The number of tokens of a sequence."""
            ...

    @abc.abstractmethod
    def sample(self, *, key: PRNGKeyArray, seen: int | Int[Array, ""]) -> Tokens:
        """Draws a sequence."""

    def scored(self, ids: Int[Array, " seq"]) -> Bool[Array, " seq"]:
        """Which tokens count in `loss` and `accuracy`; the first never does."""
        return jnp.arange(len(ids)) > 0

    @property
    def interface(self) -> Interface:
        """What a sequence looks like to a model."""
        ids = Input("ids", (self.length,), "int32", self.vocabulary)
        return Interface((ids,), self.vocabulary)

    def inputs(self, example: Tokens) -> tuple[Array]:
        """The inputs of a model."""
        return (example.ids,)

    def forward(self, model: Any, example: Tokens, *, tap: Tap = identity) -> Array:
        """The logits at each token."""
        return model(example.ids, tap=tap)

    def metrics(
        self, outputs: Float[Array, "seq label"], example: Tokens
    ) -> dict[str, Array]:
        """`loss` and `accuracy`, and `token_loss` of each token, NaN for the first."""
        ids = example.ids
        losses = token_losses(outputs, ids)
        right = jnp.argmax(outputs[:-1], -1) == ids[1:]
        counts = ~jnp.isnan(losses) & self.scored(ids)
        return {
            "loss": jnp.mean(losses, where=counts),
            "accuracy": jnp.mean(right, where=counts[1:]),
            "token_loss": losses,
        }


@dataclasses.dataclass(frozen=True)
class RepeatedTokens(TokenTask):
    """Random tokens, and then the same tokens once more.

    Only the context helps with the second copy, on which loss and accuracy are taken.
    It is the test of induction heads of Olsson et al. 2022, arXiv 2209.11895.
    """

    vocabulary: int
    """The ids are drawn uniformly from 0 to this number less 1."""
    copy: int = 25
    """How many tokens are repeated."""

    def __post_init__(self):
        positive("vocabulary", self.vocabulary)
        positive("copy", self.copy)

    @property
    def length(self) -> int:
        return 2 * self.copy

    def scored(self, ids: Int[Array, " seq"]) -> Bool[Array, " seq"]:
        # The second copy's first token does not follow from anything.
        return jnp.arange(len(ids)) > self.copy

    def sample(self, *, key: PRNGKeyArray, seen: int | Int[Array, ""]) -> Tokens:
        drawn = jax.random.randint(key, (self.copy,), 0, self.vocabulary)
        return Tokens(jnp.tile(drawn, 2))


@dataclasses.dataclass(frozen=True)
class MarkovRepeats(TokenTask):
    """A small language in which passages come again.

    Each token has a few successors, the same in all sequences, equally likely. With a
    probability, a sequence is a passage that comes again until the end. Its length is
    from an eighth to a half of the sequence, so that a position alone does not tell
    what comes next. A model may learn the successors in its weights, and the passages
    in context.
    """

    vocabulary: int = 64
    """The number of ids."""
    length: int = 64  # pyright: ignore[reportIncompatibleMethodOverride]
    """The number of tokens of a sequence."""
    successors: int = 8
    """How many tokens may follow a token."""
    repeats: float = 0.5
    """The probability that a sequence is a passage that comes again."""
    language: int = 0
    """The seed of the successors."""

    def __post_init__(self):
        for name in ("vocabulary", "length", "successors"):
            positive(name, getattr(self, name))
        if self.successors > self.vocabulary:
            wanted = f"successors must be at most vocabulary={self.vocabulary}"
            raise ValueError(f"{wanted}, got {self.successors}")
        check_probability("repeats", self.repeats)
        check_index("language", self.language)

    def table(self) -> Int[np.ndarray, "id successor"]:
        """The tokens that may follow each token."""
        rng = np.random.default_rng(self.language)
        every = np.tile(np.arange(self.vocabulary), (self.vocabulary, 1))
        return rng.permuted(every, axis=1)[:, : self.successors]

    def sample(self, *, key: PRNGKeyArray, seen: int | Int[Array, ""]) -> Tokens:
        first, walk, again, passage = jax.random.split(key, 4)
        table = jnp.asarray(self.table())

        def step(here: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
            return jax.random.choice(key, table[here]), here

        start = jax.random.randint(first, (), 0, self.vocabulary)
        _, ids = jax.lax.scan(step, start, jax.random.split(walk, self.length))
        least, most = max(1, self.length // 8), max(1, self.length // 2)
        size = jax.random.randint(passage, (), least, most + 1)
        repeated = ids[jnp.arange(self.length) % size]
        chosen = jax.random.bernoulli(again, self.repeats)
        return Tokens(jnp.where(chosen, repeated, ids))


@dataclasses.dataclass(frozen=True)
class FewShotLabels(TokenTask):
    """Items, each with its label after it: item, label, item, label, …

    All items of a group have one label. In `permuted` prompts, a new permutation of the
    labels holds in each sequence, so that only the context tells them (as in Wei et al.
    2023, arXiv 2303.03846). Loss and accuracy are those of labels that the sequence has
    had before.
    """

    vocabulary: int
    """The number of ids of the model."""
    items: tuple[tuple[int, ...], ...]
    """The ids of the items of each group."""
    labels: tuple[int, ...]
    """The id of each group's label."""
    pairs: int = 16
    """The number of items in a sequence."""
    permuted: bool = True
    """Whether labels are permuted anew in each sequence."""

    def __post_init__(self):
        positive("vocabulary", self.vocabulary)
        positive("pairs", self.pairs)
        if len(self.items) != len(self.labels) or not self.items:
            got = f"{len(self.items)} groups and {len(self.labels)} labels"
            raise ValueError(f"there must be one label for each group, got {got}")
        if len({*map(len, self.items)}) > 1 or not self.items[0]:
            raise ValueError("all groups must have the same number of items, 1 or more")
        for one in (*self.labels, *sum(self.items, ())):
            check_index("each id", one)
            if one >= self.vocabulary:
                wanted = f"ids must be below vocabulary={self.vocabulary}"
                raise ValueError(f"{wanted}, got {one}")

    @property
    def length(self) -> int:
        return 2 * self.pairs

    def scored(self, ids: Int[Array, " seq"]) -> Bool[Array, " seq"]:
        seen = jnp.tril(ids[:, None] == ids, -1).any(1)
        return seen & (jnp.arange(len(ids)) % 2 == 1)

    def sample(self, *, key: PRNGKeyArray, seen: int | Int[Array, ""]) -> Tokens:
        keys = jax.random.split(key, 3)
        count, size = len(self.items), len(self.items[0])
        group = jax.random.randint(keys[0], (self.pairs,), 0, count)
        which = jax.random.randint(keys[1], (self.pairs,), 0, size)
        order = jnp.arange(count)
        if self.permuted:
            order = jax.random.permutation(keys[2], order)
        items = jnp.asarray(self.items)[group, which]
        labels = jnp.asarray(self.labels)[order[group]]
        return Tokens(jnp.stack([items, labels], 1).reshape(-1))


def token_losses(
    logits: Float[Array, "seq label"], ids: Int[Array, " seq"]
) -> Float[Array, " seq"]:
    """The cross-entropy of each token given those before it, in nats.

    NaN for the first token, for padding, and for a token whose predecessor is padding.
    """
    log = jax.nn.log_softmax(logits[:-1])
    losses = -jnp.take_along_axis(log, jnp.maximum(ids[1:, None], 0), 1)[:, 0]
    there = (ids[1:] != PADDING) & (ids[:-1] != PADDING)
    return jnp.concatenate([jnp.full(1, jnp.nan), jnp.where(there, losses, jnp.nan)])


def tokenized(
    texts: Sequence[str], folder: str | os.PathLike[str], *, length: int
) -> Tokens:
    """Texts as ids, by the `tokenizer.json` of a model's folder.

    Longer texts are cut; shorter ones are padded on the left.

    **Raises:** `ValueError` if there is no such file, or without the package
    `tokenizers`.
    """
    positive("length", length)
    try:
        from tokenizers import Tokenizer  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError(
            "needs the package tokenizers: pip install tokenizers"
        ) from None
    file = Path(folder) / "tokenizer.json"
    if not file.is_file():
        raise ValueError(f"{folder} has no tokenizer.json")
    found = [
        each.ids[:length]
        for each in Tokenizer.from_file(str(file)).encode_batch([*texts])
    ]
    rows = [[PADDING] * (length - len(ids)) + ids for ids in found]
    return Tokens(jnp.asarray(np.array(rows, np.int32)))
