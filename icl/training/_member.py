"""A member, which `fit` trains, and the result."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Integer, PyTree

import opto
from opto.toolkit import check_call

from ..batches import example_of
from ..checks import check_seed, instance
from ..protocols import Summary, Task
from ..runs import Log
from .freezing import check_freeze
from .optimizers import Adam, Optimizer


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
    edits: tuple[opto.toolkit.AbstractEdit, ...] = ()
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
    model: PyTree,
    task: Task,
    edits: Iterable[opto.toolkit.AbstractEdit],
    example: PyTree,
) -> tuple[opto.toolkit.AbstractEdit, ...]:
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
