"""The seams between tasks, models and all that works on any of them: types only."""

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


@runtime_checkable
class Task(Protocol):
    """What training needs to know of a task; everything is for one example.

    It is a frozen dataclass, or an Equinox module if it has arrays: members that train
    together may differ in those.
    """

    def sample(self, *, key: PRNGKeyArray, seen: int | Int[Array, ""]) -> PyTree:
        """Draws one example: a module of named arrays.

        Its `check_batch()`, if it has one, raises `ValueError` for what a batch that is
        read from a file must not hold, such as NaN.

        **Arguments:**

        - `seen`: The sequences that were seen in training before, for curricula.
        """
        ...

    def forward(self, model: Any, example: Any, /, *, tap: opto.Tap) -> Any:
        """What the model says of an example."""
        ...

    def metrics(self, outputs: Any, example: Any, /) -> dict[str, Array]:
        """Numbers for one example, or arrays of them by position.

        The mean of the scalar `"loss"` is minimised. The log has the loss of each step
        and `grad_norm`, the norm of its gradient before any clipping.
        """
        ...


@runtime_checkable
class ExperimentTask(Task, Protocol):
    """What a run needs to know of a task besides: what a model is called with."""

    @property
    def interface(self) -> "Interface":
        """What an example looks like to a model."""
        ...

    def inputs(self, example: Any, /) -> tuple[Array, ...]:
        """What a model is called with: the arrays of `interface`, batch axes or not.

        A task may say more, which `icl patch` asks for: `evidence(outputs, example)`,
        a number for how strongly the example's answer is given (minus the loss if it is
        not there), with its `evidence_label`; and `contrasts`, ways by name to make of
        a batch one with other answers.
        """
        ...


@dataclasses.dataclass(frozen=True)
class Input:
    """One array that a model is called with, for one example."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    """`"float32"`, or `"int32"` for ids."""
    count: int | None = None
    """Of ids, how many there are: each is in [0, count)."""

    @property
    def struct(self) -> jax.ShapeDtypeStruct:
        """Its shape and dtype, as JAX takes them."""
        return jax.ShapeDtypeStruct(self.shape, self.dtype)


@dataclasses.dataclass(frozen=True)
class Interface:
    """What a model is called with and what it answers: where tasks and models meet."""

    inputs: tuple[Input, ...]
    """In the order of the arguments."""
    num_outputs: int
    """Numbers that the model says of each position: logits, or 1 for a value."""

    def __str__(self) -> str:
        inputs = (f"{x.name} {x.dtype}{[*x.shape]}" for x in self.inputs)
        return f"({', '.join(inputs)}) -> {self.num_outputs}"

    @property
    def structs(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        """The shapes and dtypes of the inputs, as JAX takes them."""
        return tuple(x.struct for x in self.inputs)


@runtime_checkable
class Summary(Protocol):
    """How a set's rows become a number, or numbers by position."""

    def __call__(self, rows: Mapping[str, np.ndarray], /) -> ArrayLike:
        """**Arguments:** `rows`: Each metric of a set, `[sequence, ...]`."""
        ...


class TaskConfig(OpenUnion, untagged="ExemplarLabel", packages=("icl.tasks",)):
    """Settings of a task; `build` gives the task."""

    source: ClassVar[Any] = None
    """Where its classes come from by default, a config of `icl.data`; `None` for a task
    that draws its own data."""

    summaries: ClassVar[Mapping[str, Summary | None]] = {}
    """How the rows of a set become numbers besides each metric's mean, by name. One of
    a metric's name replaces its mean; `None` drops it."""

    loss_unit: ClassVar[str] = ""
    """Of the loss and of metrics named `…_loss`, such as `"nats"`."""

    def build(self, data: Array | None, /) -> Any:
        """The task; by default the settings themselves are the task.

        **Arguments:**

        - `data`: What the experiment's source gives; `None` for a task that draws its
            own.
        """
        return self


class ModelConfig(OpenUnion, untagged="TransformerConfig", packages=("icl.models",)):
    """Settings of a model; `build` gives a freshly initialised one."""

    @abc.abstractmethod
    def build(self, interface: Interface, *, key: PRNGKeyArray) -> eqx.Module:
        """A freshly initialised model.

        **Raises:** `ValueError` for an interface that it does not have.
        """


class AttentionConfig(
    OpenUnion, untagged="SoftmaxAttention", packages=("icl.models.attention",)
):
    """Settings of a kind of attention; `build` gives it."""

    @abc.abstractmethod
    def build(
        self, num_heads: int, d_head: int, *, scale: float | None, key: PRNGKeyArray
    ) -> Any:
        """A freshly initialised `icl.models.attention.AbstractAttention`.

        **Arguments:**

        - `scale`: What the scores are multiplied by; `None` is the kind's own.

        **Raises:** `ValueError` for a scale where there are no scores.
        """


class Mask(OpenUnion, packages=("icl.models.attention",)):
    """Which tokens each token sees, for a sequence of any length."""

    @abc.abstractmethod
    def keys(self, seq: int) -> int:
        """How many tokens of `seq` are keys: the first ones."""

    @abc.abstractmethod
    def seen(self, seq: int, start: int) -> Bool[np.ndarray, "seq kv_seq"]:
        """Which keys each token from position `start` on sees: `[query, key]`.

        Every token sees one at least.
        """


class EvaluationConfig(OpenUnion, untagged="EvaluationSet", packages=("icl.tasks",)):
    """What an evaluation set is: how large, and of which task."""

    size: int

    @abc.abstractmethod
    def of(self, task: TaskConfig) -> TaskConfig:
        """The settings of the task that draws it, given those of training.

        **Raises:** `ValueError` if it cannot be of that task.
        """


@dataclasses.dataclass(frozen=True)
class TaskSet(EvaluationConfig):
    """Examples drawn once from the evaluation seed, from a task of its own.

    That task only draws them: the task of training scores them, as it does all sets.
    """

    size: int = 500
    """Number of examples."""
    task: TaskConfig | None = None
    """What draws them; `None` is the task of training."""

    def __post_init__(self):
        positive("size", self.size)

    def of(self, task: TaskConfig) -> TaskConfig:
        """Its own task, or that of training."""
        return self.task or task
