"""The values that `fit` takes."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Integer, PyTree

import opto
from opto.toolkit import check_call

from ..batches import example_of
from ..checks import check_seed, instance, positive
from ..protocols import Summary, Task
from ..runs import Log
from .freezing import check_freeze
from .optimizers import Adam, Optimizer
from .schedules import Every, Schedule


@dataclasses.dataclass(frozen=True)
class Training:
    """How long to train, and when to evaluate and save."""

    num_sequences: int = 1_000_000
    """The total; rounded up to whole batches."""
    batch_size: int = 32
    """Sequences per step."""
    microbatch_size: int | None = None
    """Sequences per gradient computation; divides the batch. `None` takes the whole
    batch. The result is the same up to rounding."""
    evaluate_at: Schedule = Every(10_000)
    """When to evaluate, in sequences seen; a point between two steps means the
    later."""
    checkpoint_at: Schedule = Every(10_000)
    """When to save the weights, in the same unit."""

    def __post_init__(self):
        for name in ("num_sequences", "batch_size"):
            positive(name, getattr(self, name))
        for schedule in (self.evaluate_at, self.checkpoint_at):
            schedule.points(self.num_sequences)  # Refuses points after the end.
        micro = self.microbatch_size
        if micro is None:
            return
        positive("microbatch_size", micro)
        if self.batch_size % micro:
            wanted = f"a divisor of batch_size={self.batch_size}"
            raise ValueError(f"microbatch_size must be {wanted}, got {micro}")

    @property
    def num_steps(self) -> int:
        """The number of steps."""
        return math.ceil(self.num_sequences / self.batch_size)

    @property
    def seen_sequences(self) -> int:
        """The sequences seen at the end: `num_steps` whole batches."""
        return self.num_steps * self.batch_size

    def steps_of(self, schedule: Schedule) -> set[int]:
        """The steps after which a schedule has a point; 0 is before the first step."""
        points = schedule.points(self.num_sequences)
        return {math.ceil(point / self.batch_size) for point in points}

    def sequences_of(self, schedule: Schedule) -> list[int]:
        """The sequences seen after each of `steps_of(schedule)`, in order."""
        return sorted(step * self.batch_size for step in self.steps_of(schedule))


class Member(eqx.Module):
    """One of the runs that are trained together.

    Members may differ in the values of arrays and numbers: the model's weights, the
    seed, the learning rate, an edit's value or the head that it selects, the data. They
    must agree in everything that shapes the program. A member is checked when it is
    made: a `ValueError` says why it cannot be trained.

    **Fields:**

    - `model`: Freshly initialised, or from a checkpoint.
    - `task`: What to train on; see `Task`.
    - `optimizer`: From `icl.training.optimizers`.
    - `train_seed`: The batch of step n is a function of only this seed and n.
    - `edits`: Active in every forward pass of training and evaluation.
    - `evaluations`: Batches of examples by the name of the set.
    - `summaries`: The summaries of the task's config, only for loggers: how a set's
        rows become numbers.
    - `freeze`: Paths of weights that stay as they are, see `icl.training.freezing`: no
        update, no decay, no state in the optimizer.
    """

    model: PyTree
    task: Any
    optimizer: Optimizer = Adam()
    train_seed: int | Integer[Array, ""] = 0
    edits: tuple[opto.AbstractEdit, ...] = ()
    evaluations: Mapping[str, PyTree] = dataclasses.field(default_factory=dict)
    summaries: Mapping[str, Summary | None] = dataclasses.field(default_factory=dict)
    freeze: tuple[str, ...] = eqx.field(static=True, default=())

    def __check_init__(self):
        # The only checks of a member: `fit` trusts it.
        instance("optimizer", self.optimizer, Optimizer)
        if not isinstance(self.train_seed, jax.Array):
            check_seed("train_seed", self.train_seed)
        check_set_names(self.evaluations)
        check_freeze(self.model, self.freeze)
        if self.edits:
            check_edits(self.model, self.task, self.edits, example_of(self.task))


def check_set_names(names: Iterable[str]) -> None:
    """Raises `ValueError` if a log cannot have an evaluation set with this name."""
    for name in names:
        if name in ("", "iter") or "/" in name or name.startswith("."):
            raise ValueError(f"an evaluation set cannot be named {name!r} in a log")


def check_edits(
    model: PyTree, task: Task, edits: Iterable[opto.AbstractEdit], example: PyTree
) -> tuple[opto.AbstractEdit, ...]:
    """The edits; raises `ValueError` unless each can apply in the task's forward pass.

    Call this before compiling: inside, indices are tracers, so an index out of range
    would go unnoticed.
    """
    if isinstance(edits, tuple | list) and not edits:
        return ()
    return check_call(task.forward, model, example, edits=edits)


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of `fit` for one member: the trained model and the log.

    `diverged` says where its numbers stopped being finite; `None` if they are finite.
    """

    model: PyTree
    log: Log
    diverged: str | None = None
