"""Exemplar-label sequences (Chan et al., 2022; Singh et al., 2023-2025).

A sequence is a context of (exemplar, label) pairs and a query. The query is an exemplar
whose label is the target. A model can match the query to the context and copy the label
there (in-context), or know the class from training (in-weights). The fields of
`ExemplarLabel` decide which of the two helps.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Int32, PRNGKeyArray

from opto import identity, Tap

from ...checks import check_not_negative, check_one_of
from ...data import LowRankClasses, Source
from ...protocols import Input, Interface, TaskConfig
from ..classification import classification
from ._context import check_enough_classes, Context, Mixture, sample_slots
from ._distribution import AbstractClassSampler, Distribution, UniformClasses
from ._exemplars import ExemplarChoice, Free
from ._labels import ClassLabels, Labels
from ._sequence import (
    exemplars_swapped,
    labels_swapped,
    query_logit_difference,
    Sequence as Sequence,
)
from ._split import Split, SplitPart


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExemplarLabel(TaskConfig):
    """Settings of an exemplar-label task; `build` gives the task."""

    source: ClassVar[Source] = LowRankClasses()
    loss_unit: ClassVar[str] = "nats"

    class_split: Split
    """Divides the classes of the data."""
    exemplar_split: Split
    """Divides the exemplars of each class, in the same way for all classes."""
    classes: SplitPart = "train"
    """Which part of the classes to draw from."""
    exemplars: SplitPart = "train"
    """Which part of each class's exemplars to draw from."""
    context: Context | Mixture = Context()
    """Which classes appear, and where."""
    distribution: Distribution = UniformClasses()
    """The distribution of the query's class over the split."""
    exemplar_choice: ExemplarChoice = Free()
    """Which exemplar of its class each position shows."""
    labels: Labels = ClassLabels()
    """The label of each class."""
    noise: float = 0.0
    """Standard deviation of the Gaussian noise that is added to each component of each
    example, independently at each position; 0 for none."""

    def __post_init__(self):
        for argument in ("classes", "exemplars"):
            check_one_of(argument, getattr(self, argument), SplitPart)
        check_not_negative("noise", self.noise)

    def build(
        self,
        data: Float[Array, "class exemplar dim"] | Int[Array, "class exemplar"] | None,
        /,
    ) -> "ExemplarLabelTask":
        """The task on some data; the task refers to the data and does not copy it.

        **Arguments:**

        - `data`: A vector for each exemplar of each class; or an integer id, for models
            that look up ids in a table. Ids have no noise.

        **Raises:**

        `ValueError` if there is no data, the labels do not fit the context, the data
        has too few classes or exemplars, or noise is asked for on ids.
        """
        if data is None:
            raise ValueError("data must be classes of exemplars, got None")
        real = jnp.issubdtype(data.dtype, jnp.floating)
        if data.ndim != (3 if real else 2):
            raise ValueError(
                "data must be floats [class, exemplar, dim] or integers "
                f"[class, exemplar], got {data.dtype}{list(data.shape)}"
            )
        if self.noise and not real:
            raise ValueError(f"noise must be 0 for data of ids, got {self.noise}")
        # Not in `__post_init__`: a command line changes one field at a time.
        self.labels.check(self.context)
        class_ids = self.class_split.part(self.classes, data.shape[0])
        exemplar_ids = self.exemplar_split.part(self.exemplars, data.shape[1])
        check_enough_classes(self.context, len(class_ids))
        pairs = self.labels.pairs()
        return ExemplarLabelTask(
            config=self,
            data=data,
            class_ids=jnp.asarray(class_ids, jnp.int32),
            exemplar_ids=jnp.asarray(exemplar_ids, jnp.int32),
            class_sampler=self.distribution.build(len(class_ids)),
            label_pairs=None if pairs is None else jnp.asarray(pairs, jnp.int32),
        )


class ExemplarLabelTask(eqx.Module):
    """Draws exemplar-label sequences and scores a model on them.

    **Attributes:**

    - `config`: The settings that built it.
    - `data`: All classes and exemplars, shared with other tasks on the same array.
    - `class_ids`, `exemplar_ids`: The indices in the data that it draws from.
    - `class_sampler`: Draws positions in `class_ids`.
    - `label_pairs`: For `Relabel` with a split, the pairs of labels to draw from.
    """

    config: ExemplarLabel = eqx.field(static=True)
    data: Float[Array, "class exemplar dim"] | Int[Array, "class exemplar"]
    class_ids: Int32[Array, " split_class"]
    exemplar_ids: Int32[Array, " split_exemplar"]
    class_sampler: AbstractClassSampler
    label_pairs: Int32[Array, "pair 2"] | None

    @property
    def num_labels(self) -> int:
        """The number of labels that a model of this task needs."""
        return self.config.labels.label_count(self.data.shape[0])

    @property
    def interface(self) -> Interface:
        """What a sequence looks like to a model."""
        length, real = self.config.context.length + 1, self.data.ndim == 3
        shape = (length, self.data.shape[-1]) if real else (length,)
        count = None if real else int(self.data.max()) + 1
        return Interface(
            (
                Input("examples", shape, str(self.data.dtype), count),
                Input("labels", (length,), "int32", self.num_labels),
            ),
            self.num_labels,
        )

    def sample(self, *, key: PRNGKeyArray, seen: int | Int[Array, ""] = 0) -> Sequence:
        """Draws one sequence; the distribution does not depend on `seen`."""
        config = self.config
        bits_key, noise_key = jax.random.split(key)
        # One row of words for each purpose: a label scheme needs at most two words.
        shape = 4, config.context.length + 1
        class_bits, order_bits, exemplar_bits, label_bits = jax.random.bits(
            bits_key, shape, jnp.uint32
        )
        draws, slots = sample_slots(
            config.context, self.class_sampler, class_bits, order_bits
        )
        exemplars = config.exemplar_choice.sample(
            draws, slots, self.exemplar_ids.shape[0], exemplar_bits
        )
        draws = self.class_ids[draws]
        labels = config.labels.assign(draws, slots, self.label_pairs, label_bits)
        classes = draws[slots]
        examples = self.data[classes, self.exemplar_ids[exemplars]]
        if config.noise:
            noise = jax.random.normal(noise_key, examples.shape, examples.dtype)
            examples = examples + config.noise * noise
        return Sequence(examples, labels, classes)

    def inputs(self, example: Sequence) -> tuple[Array, Array]:
        """The inputs of a model: examples and labels, with or without batch axes.

        The last label is the target; a model does not read it.
        """
        return example.examples, example.labels

    def forward(
        self, model: Any, example: Sequence, *, tap: Tap = identity
    ) -> Float[Array, " label"]:
        """The model's logits for the query's label.

        **Arguments:** `model`: Has `query_logits(examples, labels, *, tap)`.
        """
        return model.query_logits(*self.inputs(example), tap=tap)

    evidence_label: ClassVar[str] = "logit difference"

    @property
    def corruptions(self) -> dict[str, Callable[[Sequence], Sequence]]:
        """Functions by name that turn a batch into one with other answers."""
        return {
            "labels-swapped": labels_swapped,
            "exemplars-swapped": exemplars_swapped,
        }

    def evidence(
        self, logits: Float[Array, " label"], example: Sequence
    ) -> Float[Array, ""]:
        """How strongly the logits prefer the right label to the context's others.

        See `icl.tasks.exemplar_label.query_logit_difference`.
        """
        return query_logit_difference(logits, example.labels)

    def metrics(
        self, logits: Float[Array, " label"], example: Sequence
    ) -> dict[str, Float[Array, ""]]:
        """Scores of one sequence; see `icl.tasks.classification`."""
        labels = example.labels
        return classification(logits, labels[-1], labels[:-1])
