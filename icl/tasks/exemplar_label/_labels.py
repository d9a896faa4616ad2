"""Label schemes: the label of each class of a sequence."""

import abc
import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Int32, UInt32

from ...checks import check_one_of
from ._context import Context, Mixture
from ._distribution import below
from ._split import Split, SplitPart


class AbstractLabels(abc.ABC):
    """The label of each class of a sequence."""

    @abc.abstractmethod
    def check(self, context: Context | Mixture) -> None:
        """Raises `ValueError` unless the scheme fits every context."""

    @abc.abstractmethod
    def label_count(self, num_classes: int) -> int:
        """The number of labels a model needs, for data with `num_classes` classes."""

    @abc.abstractmethod
    def pairs(self) -> Int[np.ndarray, "pair 2"] | None:
        """The table of label pairs to draw from, or `None`."""

    @abc.abstractmethod
    def assign(
        self,
        draws: Int32[Array, " draw"],
        slots: Int32[Array, " exemplar"],
        pairs: Int32[Array, "pair 2"] | None,
        bits: UInt32[Array, " exemplar"],
    ) -> Int32[Array, " exemplar"]:
        """The label of each position.

        **Arguments:**

        - `draws`: The drawn classes, as indices in the data; the query's comes first.
        - `slots`: Which draw fills each position.
        - `pairs`: The table from `pairs()`.
        - `bits`: Independent uniform words.
        """


class _OwnNumber(AbstractLabels):
    """Schemes whose labels are the classes' indices in the whole data set."""

    def label_count(self, num_classes):
        return num_classes

    def pairs(self):
        return None


@dataclasses.dataclass(frozen=True)
class ClassLabels(_OwnNumber):
    """A class's label is its own index in the whole data set."""

    def check(self, context):
        pass

    def assign(self, draws, slots, pairs, bits):
        return draws[slots]


@dataclasses.dataclass(frozen=True)
class Relabel(AbstractLabels):
    """Few-shot labels: two different labels, drawn anew for each sequence.

    One label goes to the query's class and one to the other class, so only the context
    tells which is which (Singh et al., 2024). Needs contexts of exactly two classes.
    """

    num_labels: int = 5
    """The number of labels, at least 2."""
    split: Split | None = None
    """Divides the unordered pairs of different labels. Each label is in at least one
    training pair: if one is not, the pairs are divided again with new randomness from
    the split's seed. By default every pair is for training, and no table of pairs is
    made."""
    part: SplitPart = "train"
    """Which part's pairs to use. The pair is drawn uniformly, and so is its order."""

    def __post_init__(self):
        check_one_of("part", self.part, SplitPart)
        if self.num_labels < 2:
            raise ValueError(f"num_labels must be at least 2, got {self.num_labels}")
        if self.split is None and self.part != "train":
            raise ValueError(f"part {self.part!r} needs a split of the label pairs")

    def check(self, context):
        _check_two_classes("Relabel", context)

    def label_count(self, num_classes):
        return self.num_labels

    def pairs(self):
        if self.split is None:
            return None
        return _label_pairs(self.split, self.part, self.num_labels)

    def assign(self, draws, slots, pairs, bits):
        if pairs is not None:
            return pairs[below(bits[0], pairs.shape[0]).astype(jnp.int32)][slots]
        first = below(bits[0], self.num_labels)
        second = below(bits[1], self.num_labels - 1)
        second = second + (second >= first).astype(second.dtype)
        return jnp.stack([first, second]).astype(jnp.int32)[slots]


@dataclasses.dataclass(frozen=True)
class FlippedLabels(_OwnNumber):
    """Class labels, but with the labels of the context's two classes exchanged.

    The query's label is exchanged too. A model that uses the context answers with the
    target; a model that knows the class from training answers with the other label.
    Needs contexts of exactly two classes.
    """

    def check(self, context):
        _check_two_classes("FlippedLabels", context)

    def assign(self, draws, slots, pairs, bits):
        return draws[1 - slots]


@dataclasses.dataclass(frozen=True)
class QueryLabelOnContext(_OwnNumber):
    """Class labels, but one item of the context has the query's label.

    The item is uniformly random. It is not of the query's class, so copying from a
    match does not help, but the label is in the context: the "CIWL" sequences of Singh
    et al. (2025). Needs contexts with `no_support`.
    """

    def check(self, context):
        for kind, _ in context.components:
            if not kind.no_support:
                raise ValueError(
                    "QueryLabelOnContext needs contexts with no_support=True, got "
                    f"{kind}"
                )

    def assign(self, draws, slots, pairs, bits):
        position = below(bits[0], slots.shape[0] - 1)
        chosen = jnp.arange(slots.shape[0], dtype=jnp.uint32) == position
        return jnp.where(chosen, draws[0], draws[slots])


Labels = ClassLabels | Relabel | FlippedLabels | QueryLabelOnContext


def _label_pairs(
    split: Split, part: SplitPart, num_labels: int
) -> Int[np.ndarray, "pair 2"]:
    """The pairs of a part, in both orders; the training pairs include all labels."""
    if 2 * split.train < num_labels:
        raise ValueError(
            f"{split.train} training pairs cannot have all {num_labels} labels"
        )
    num_pairs = num_labels * (num_labels - 1) // 2
    attempts = 1 if split.seed is None else 1000
    for attempt in range(attempts):
        train = _unordered(split.part("train", num_pairs, attempt=attempt))
        if len(np.unique(train)) == num_labels:
            pairs = _unordered(split.part(part, num_pairs, attempt=attempt))
            return np.concatenate([pairs, pairs[:, ::-1]])
    raise ValueError(
        f"{split} was tried {attempts} times on {num_pairs} pairs, but the "
        f"training pairs never had all {num_labels} labels; increase train"
    )


def _unordered(index: Int[np.ndarray, " pair"]) -> Int[np.ndarray, "pair 2"]:
    """Pairs of different numbers, from the order (0, 1), (0, 2), (1, 2), (0, 3), …."""
    high = np.floor((1 + np.sqrt(1 + 8 * index.astype(np.float64))) / 2).astype(int)
    return np.stack([index - high * (high - 1) // 2, high], axis=-1)


def _check_two_classes(scheme: str, context: Context | Mixture) -> None:
    for kind, _ in context.components:
        if not kind.has_two_classes:
            raise ValueError(
                f"{scheme} needs contexts with the query's class and exactly one other "
                f"class (burstiness and a distractor take all of the length, or leave "
                f"one item), got {kind}"
            )
