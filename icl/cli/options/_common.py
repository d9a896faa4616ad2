"""What the options of several commands have in common."""

import dataclasses
from pathlib import Path

import tyro

from ._parse import CommandOptions


@dataclasses.dataclass(frozen=True)
class RunOptions(CommandOptions):
    """Which run, under which edits."""

    run: tyro.conf.Positional[Path]
    """A run folder."""
    edit: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An edit in force, besides those of training, such as
    "Zero('blocks.1.attn.z', head=3)"; may be repeated."""
    training_edits: bool = True
    """Whether the edits that the run was trained under are in force too."""

    @property
    def as_trained(self) -> bool:
        """Whether the edits of training are in force, and no others."""
        return self.training_edits and not self.edit


@dataclasses.dataclass(frozen=True)
class SetOptions(RunOptions):
    """Which model, under which edits, on which sequences."""

    checkpoint: int = -1
    """Sequences seen at the checkpoint; -1 is the last."""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An evaluation set; of exemplar-label sequences also dense, every label pair and
    order of 100 pairs of classes, or dense:N, of N. May be repeated; the default is all
    evaluation sets."""


@dataclasses.dataclass(frozen=True)
class ProbeOptions(SetOptions):
    """Which model, under which edits, on which sequences, and where results go."""

    out: Path | None = None
    """The folder of the results, made if need be; the default is one in the run's."""


@dataclasses.dataclass(frozen=True)
class SubjectOptions(RunOptions):
    """Which run, on which sequences, under which edits."""

    data: str = ""
    """The evaluation set that is looked at, the first if left out; of exemplar-label
    sequences also dense, every label pair and order of 100 pairs of classes, or
    dense:N, of N."""
    threshold: float | None = None
    """A loss, in the unit of the task's losses: where the set's loss first falls to it,
    the phase change is marked. The induction-head paper's figure 5b has 0.347, half of
    ln 2, in nats."""
