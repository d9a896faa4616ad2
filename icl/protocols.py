"""The protocols between tasks, models and everything that works on them: types only."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Int, PRNGKeyArray, PyTree

import opto

from .checks import positive
from .unions import OpenUnion


MOST_SEEN = 2**31 - 1
"""The most sequences that a task's `sample` is told of: the largest int32."""


@runtime_checkable
class Task(Protocol):
    """What training needs to know about a task; everything is for one example.

    A task is a frozen dataclass, or an Equinox module if it has arrays. Members that
    train together may differ in these arrays.
    """

    def sample(self, *, key: PRNGKeyArray, seen: int | Int[Array, ""]) -> PyTree:
        """Draws one example: a module of named arrays.

        The module may have a method `check_batch()`. It raises `ValueError` if a batch
        read from a file has values that it must not have, such as NaN.

        **Arguments:**

        - `seen`: How many sequences training has seen before, for curricula. After
            `MOST_SEEN` it no longer grows.
        """
        ...

    def forward(self, model: Any, example: Any, /, *, tap: opto.Tap) -> Any:
        """The model's outputs for an example."""
        ...

    def metrics(self, outputs: Any, example: Any, /) -> dict[str, Array]:
        """Numbers for one example, or arrays of numbers by position.

        Training minimises the mean of the scalar `"loss"`. The log has the loss of each
        step and `grad_norm`, the norm of its gradient before any clipping.
        """
        ...


@runtime_checkable
class ExperimentTask(Task, Protocol):
    """What a run also needs to know about a task: the inputs of a model."""

    @property
    def interface(self) -> "Interface":
        """What an example looks like to a model."""
        ...

    def inputs(self, example: Any, /) -> tuple[Array, ...]:
        """The inputs of a model: the arrays of `interface`, with or without batch axes.

        A task may have more members, for `icl patch`. `evidence(outputs, example)` is a
        number for how strongly the outputs give the example's answer; without it, minus
        the loss is used. `evidence_label` is its label. `corruptions` has functions by
        name; each makes a batch with other answers from a batch.

        A task with a curriculum may have `stage(seen)`: by name, the numbers that tell
        its stage after `seen` sequences (an array), for the log of its training.
        """
        ...


@dataclasses.dataclass(frozen=True)
class Input:
    """One input array of a model, for one example."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    """`"float32"`, or `"int32"` for ids."""
    count: int | None = None
    """For ids: how many there are. Each id is in [0, count)."""

    @property
    def struct(self) -> jax.ShapeDtypeStruct:
        """Its shape and dtype, as JAX takes them."""
        return jax.ShapeDtypeStruct(self.shape, self.dtype)


@dataclasses.dataclass(frozen=True)
class Interface:
    """A model's inputs and outputs: where tasks and models meet."""

    inputs: tuple[Input, ...]
    """In the order of the arguments."""
    num_outputs: int
    """How many numbers the model gives at each position: logits, or 1 for a value."""
    num_queries: int = 1
    """How many of the last positions are queries. With several, the model's answer has
    an axis of queries."""

    def __str__(self) -> str:
        inputs = (f"{x.name} {x.dtype}{[*x.shape]}" for x in self.inputs)
        queries = f" for {self.num_queries} queries" * (self.num_queries > 1)
        return f"({', '.join(inputs)}) -> {self.num_outputs}{queries}"

    @property
    def structs(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        """The shapes and dtypes of the inputs, as JAX takes them."""
        return tuple(x.struct for x in self.inputs)


@dataclasses.dataclass(frozen=True)
class Bounds:
    """What a summary gives for an interval: two numbers, or two by position."""

    low: ArrayLike
    high: ArrayLike


@runtime_checkable
class Summary(Protocol):
    """How the rows of a set become a number, or numbers by position.

    A summary named `error` that gives `Bounds` becomes `error_low` and `error_high`.
    """

    def __call__(self, rows: Mapping[str, np.ndarray], /) -> ArrayLike | Bounds:
        """**Arguments:** `rows`: Each metric of a set, `[sequence, ...]`."""
        ...


class Untrained(eqx.Module):
    """An array of a model that training never changes, such as random features.

    It has no gradient, no decay and no optimizer state. Checkpoints save it.
    """

    value: Array


class TaskConfig(OpenUnion, untagged="ExemplarLabel", packages=("icl.tasks",)):
    """Settings of a task; `build` gives the task."""

    source: ClassVar[Any] = None
    """The default source of its classes, a config of `icl.data`; `None` for a task that
    draws its own data."""

    summaries: ClassVar[Mapping[str, Summary | None]] = {}
    """How the rows of a set become more numbers, by name, besides each metric's mean.
    A summary with a metric's name replaces that mean; `None` drops it."""

    loss_unit: ClassVar[str] = ""
    """The unit of the loss and of metrics named `…_loss`, such as `"nats"`."""

    def build(self, data: Array | None, /) -> Any:
        """The task; by default the settings are themselves the task.

        **Arguments:**

        - `data`: What the experiment's source gives; `None` for a task that draws its
            own data.
        """
        return self


class ModelConfig(OpenUnion, untagged="TransformerConfig", packages=("icl.models",)):
    """Settings of a model; `build` gives a freshly initialised one."""

    @abc.abstractmethod
    def build(self, interface: Interface, *, key: PRNGKeyArray) -> eqx.Module:
        """A freshly initialised model.

        **Raises:** `ValueError` for an interface that it does not support.
        """


class AttentionConfig(
    OpenUnion, untagged="SoftmaxAttention", packages=("icl.models.attention",)
):
    """Settings of a kind of attention; `build` gives the attention."""

    @abc.abstractmethod
    def build(
        self, num_heads: int, d_head: int, *, scale: float | None, key: PRNGKeyArray
    ) -> Any:
        """A freshly initialised `icl.models.attention.AbstractAttention`.

        **Arguments:**

        - `scale`: The factor on the scores; `None` uses the kind's own factor.

        **Raises:** `ValueError` for a scale if it would change nothing.
        """


class Mask(OpenUnion, packages=("icl.models.attention",)):
    """Which tokens each token sees, for a sequence of any length."""

    @abc.abstractmethod
    def keys(self, seq: int) -> int:
        """How many tokens of `seq` are keys; these are the first tokens."""

    @abc.abstractmethod
    def seen(self, seq: int, start: int) -> Bool[np.ndarray, "seq kv_seq"]:
        """Which keys each token from position `start` on sees: `[query, key]`.

        Every token sees at least one key.
        """


class EvaluationConfig(OpenUnion, untagged="EvaluationSet", packages=("icl.tasks",)):
    """What an evaluation set is: its size and its task."""

    size: int

    @abc.abstractmethod
    def of(self, task: TaskConfig) -> TaskConfig:
        """The settings of the task that draws the set, given those of training.

        **Raises:** `ValueError` if the set cannot be drawn for that task.
        """


@dataclasses.dataclass(frozen=True)
class TaskSet(EvaluationConfig):
    """Examples drawn once from the evaluation seed, perhaps from a task of their own.

    That task only draws them. The training task scores them, as it scores all sets.
    """

    size: int = 500
    """Number of examples."""
    task: TaskConfig | None = None
    """The task that draws them; `None` is the training task."""

    def __post_init__(self):
        positive("size", self.size)

    def of(self, task: TaskConfig) -> TaskConfig:
        """The set's own task, or the training task."""
        return self.task or task
