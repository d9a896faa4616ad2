"""Options that several commands share."""

import dataclasses
from pathlib import Path

import tyro

from ._parse import CommandOptions


@dataclasses.dataclass(frozen=True)
class RunOptions(CommandOptions):
    """A run and the edits to apply."""

    run: tyro.conf.Positional[Path]
    """A run folder."""
    edit: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An edit to apply besides those of training, such as
    "Zero('blocks.1.attn.z', head=3)"; may be repeated."""
    training_edits: bool = True
    """Whether to apply the edits that the run was trained with, too."""

    @property
    def as_trained(self) -> bool:
        """Whether exactly the edits of training are applied."""
        return self.training_edits and not self.edit


@dataclasses.dataclass(frozen=True)
class SetOptions(RunOptions):
    """A model, the edits to apply, and the sequences to use."""

    checkpoint: int = -1
    """The checkpoint, as the number of sequences seen; -1 is the last."""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An evaluation set; may be repeated. The default is all of them. Tasks with
    exemplar-label sequences also have dense (every label pair and order of 100 pairs of
    classes) and dense:N (of N pairs)."""


@dataclasses.dataclass(frozen=True)
class ProbeOptions(SetOptions):
    """A model, the edits, the sequences, and the folder for the results."""

    out: Path | None = None
    """The folder for the results. The default is a folder in the run's folder."""


@dataclasses.dataclass(frozen=True)
class SubjectOptions(RunOptions):
    """A run, the sequences to use, and the edits to apply."""

    data: str = ""
    """The evaluation set to use. The default is the first. Tasks with exemplar-label
    sequences also have dense (every label pair and order of 100 pairs of classes) and
    dense:N (of N pairs)."""
    threshold: float | None = None
    """A loss, in the unit of the task's losses. Figures mark the phase change where the
    set's loss first falls to it. Figure 5b of the induction-head paper uses 0.347 nats,
    half of ln 2."""
