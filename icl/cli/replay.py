"""`icl replay`: compute measures at a run's checkpoints."""

import dataclasses
from pathlib import Path
from typing import ClassVar

import tyro

from .options import parse, RunOptions
from .results import note_undefined


@dataclasses.dataclass(frozen=True)
class ReplayOptions(RunOptions):
    """Compute measures at a run's checkpoints and write them to a file.

    RUN may also be folders of a language model at several training steps, as Hugging
    Face stores them: a pattern such as 'steps/step*'. In the file, `sequences` is the
    number of sequences (or training steps) at each checkpoint. Each measure is an array
    `measures/NAME`; its attribute `axes` names the axes.
    """

    EXAMPLE: ClassVar[str] = "icl replay runs/demo --measure induction_strength"

    measure: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A measure, such as induction_strength, "induction_strength(layer=1)" or loss; may
    be repeated. Without this option, the command lists the measures."""
    on: str = "train"
    """An evaluation set to use. Tasks with exemplar-label sequences also have dense
    (every label pair and order of 100 pairs of classes) and dense:N (of N pairs)."""
    checkpoint: tyro.conf.UseAppendAction[tuple[int, ...]] = ()
    """A checkpoint, as the number of sequences seen; -1 is the last. May be repeated;
    the default is all checkpoints."""
    out: Path | None = None
    """The .h5 file to write. The default is replay.h5 in the run's folder."""


def replay(arguments: list[str]) -> None:
    """Runs the command."""
    options = parse(ReplayOptions, arguments, "replay")
    from .. import measures
    from ..replaying import check_replay_file, replay as replay_run, trained_of
    from .probe import edits_in_force

    trained = trained_of(options.run)
    known = measures.names(trained.task, trained.model)
    if not options.measure:
        width = max(map(len, known))
        print("\n".join(f"{name:{width}}  {about}" for name, about in known.items()))
        raise ValueError("--measure is missing; the measures are listed above")
    out = options.out or trained.run.path / "replay.h5"
    check_replay_file(out)
    asked = {
        text: measures.parse(text, trained.task, trained.model)
        for text in options.measure
    }
    edits = edits_in_force(options, trained)
    results = replay_run(
        trained,
        asked,
        data=options.on,
        # `None`: the edits of training, but not for measures of the weights alone.
        edits=None if options.as_trained else edits,
        checkpoints=options.checkpoint or None,
    )
    about = {"run": str(options.run), "data": options.on, "edits": repr(edits)}
    results.save(out, **about)
    for name in asked:
        print(f"{name}  [{results.axes[name]}]  {list(results[name].shape)}")
    print(f"{len(results.sequences)} checkpoints: {out}")
    values = {name: results[name] for name in asked}
    note_undefined("replay", {options.on: values}, "checkpoints")
