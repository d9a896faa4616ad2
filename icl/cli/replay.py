"""`icl replay`: measures over a run's checkpoints."""

import dataclasses
from pathlib import Path

import tyro

from .. import measures
from ..experiments import load
from ..replay import check_replay_file, replay as replay_run
from .notes import note_undefined
from .options import parse, RunOptions


@dataclasses.dataclass(frozen=True)
class ReplayOptions(RunOptions):
    """Take measures at a run's checkpoints and write them to a file.

    The file has `sequences`, the sequences seen at each checkpoint, and an array
    `measures/NAME` for each measure, whose attribute `axes` names its axes.
    """

    measure: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A measure, such as induction_strength, "induction_strength(layer=1)" or loss; may
    be repeated. Without one, the measures that there are are listed."""
    data: str = "train"
    """An evaluation set of the run; of exemplar-label sequences also dense, every label
    pair and order of 100 pairs of classes, or dense:N, of N."""
    checkpoint: tyro.conf.UseAppendAction[tuple[int, ...]] = ()
    """Sequences seen at a checkpoint, -1 for the last; may be repeated. The default is
    all of them."""
    out: Path = Path("replay.h5")
    """The file to write, .h5."""


def replay(arguments: list[str]) -> None:
    """Runs the command.

    **Raises:** `ValueError` for what cannot be.
    """
    options = parse(ReplayOptions, arguments, "replay")
    trained = load(options.run)
    known = measures.names(trained.task, trained.model)
    if not options.measure:
        width = max(map(len, known))
        print("\n".join(f"{name:{width}}  {about}" for name, about in known.items()))
        raise ValueError("--measure is missing; above is what there is")
    check_replay_file(options.out)
    asked = {
        text: measures.parse(text, trained.task, trained.model)
        for text in options.measure
    }
    edits = options.in_force(trained, record="**")
    found = replay_run(
        trained,
        asked,
        data=options.data,
        # What a run was trained under is no matter to measures of its weights.
        edits=None if options.as_trained else edits,
        checkpoints=options.checkpoint or None,
    )
    about = {"run": str(options.run), "data": options.data, "edits": repr(edits)}
    found.save(options.out, **about)
    for name in asked:
        print(f"{name}  [{found.axes[name]}]  {list(found[name].shape)}")
    print(f"{len(found.sequences)} checkpoints: {options.out}")
    values = {name: found[name] for name in asked}
    note_undefined("replay", {options.data or "the set": values}, "checkpoints")
