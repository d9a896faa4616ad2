"""The seams between tasks, models and all that works on any of them: types only."""

import abc
import dataclasses
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

import opto

from .config import OpenUnion


@runtime_checkable
class Task(Protocol):
    """What training needs to know of a task; everything is for one example.

    A task is an Equinox module. Members that train together may differ in its arrays.
    """

    def sample(self, *, key: PRNGKeyArray, seen: int | Int[Array, ""]) -> PyTree:
        """Draws one example: a module of named arrays.

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
        """What a model is called with: the arrays of `interface`, batch axes or not."""
        ...


@dataclasses.dataclass(frozen=True)
class Input:
    """One array that a model is called with, for one example."""

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

    inputs: dict[str, Input]
    """In the order of the arguments."""
    num_outputs: int
    """Numbers that the model says of each position: logits, or 1 for a value."""


class TaskConfig(OpenUnion, untagged="ExemplarLabel", packages=("icl.tasks",)):
    """Settings of a task; `build` gives the task."""

    needs_data = False
    """Whether it draws from classes that a source of the experiment gives."""

    @abc.abstractmethod
    def build(self, data: Array | None) -> Any:
        """The task.

        **Arguments:**

        - `data`: What the experiment's source gives; `None` for a task that draws its
            own.
        """


class ModelConfig(OpenUnion, untagged="TransformerConfig", packages=("icl.models",)):
    """Settings of a model; `build` gives a freshly initialised one."""

    @abc.abstractmethod
    def build(self, interface: Interface, *, key: PRNGKeyArray) -> eqx.Module:
        """A freshly initialised model.

        **Raises:** `ValueError` for an interface that it does not have.
        """


class EvaluationConfig(OpenUnion, untagged="EvaluationSet"):
    """What an evaluation set is: how large, and of which task."""

    size: int

    @abc.abstractmethod
    def of(self, task: TaskConfig) -> TaskConfig:
        """The settings of the task that draws it, given those of training.

        **Raises:** `ValueError` if it cannot be of that task.
        """
